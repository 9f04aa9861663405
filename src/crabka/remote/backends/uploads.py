"""What an upload reads from local files, and how much of it is in memory.

A file that cannot be read is an OSError and stays one: it is not the tier's fault. Many partitions are copied at once:
each upload first takes its share of a common bound, `UploadMemory`, and waits where none is left. A store keeps a piece
until the part that it belongs to has arrived or is given up; `PiecesInFlight` notices when the memory is free again.
"""

from __future__ import annotations

import errno
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from crabka.ports import File, FileSystem
from crabka.remote.segments import IndexType, LogSegmentData
from crabka.vfs import read_file

# Requests have timeouts of their own, so this ends only what those do not.
_PATIENCE_S = 120.0

Source = str | bytes
"""A path to read from, or the content itself."""


def index_sources(data: LogSegmentData) -> dict[IndexType, Source]:
    """Return what accompanies the batches, without a transaction index if there is none."""
    sources: dict[IndexType, Source] = {
        IndexType.OFFSET: data.offset_index,
        IndexType.TIMESTAMP: data.time_index,
        IndexType.PRODUCER_SNAPSHOT: data.producer_snapshot_index,
        IndexType.LEADER_EPOCH: data.leader_epoch_index,
    }
    if data.transaction_index is not None:
        sources[IndexType.TRANSACTION] = data.transaction_index
    return sources


def read_source(fs: FileSystem, source: Source) -> bytes:
    """Return the content of a source that is small. Raises OSError."""
    return source if isinstance(source, bytes) else read_file(fs, source)


@contextmanager
def opened(fs: FileSystem, path: str) -> Iterator[File]:
    """Open a file for reading and close it in the end. Raises OSError."""
    file = fs.open(path, read_only=True)
    try:
        yield file
    finally:
        file.close()


def pieces(file: File, size_bytes: int, piece_bytes: int) -> Iterator[bytes]:
    """Return the first `size_bytes` of a file piece by piece. Raises OSError, also if the file is shorter."""
    for position in range(0, size_bytes, piece_bytes):
        length = min(piece_bytes, size_bytes - position)
        piece = file.pread(length, position)
        if len(piece) < length:
            raise OSError(errno.EIO, f"the file ends before {position + length}", file.path)
        yield piece


class UploadMemory:
    """Shares of a bound, given out in the order of requests. Thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._held_bytes = 0
        self._waiting: deque[object] = deque()

    @property
    def held_bytes(self) -> int:
        """Return what is given out."""
        return self._held_bytes

    @property
    def waiting_count(self) -> int:
        """Return how many wait for their share."""
        return len(self._waiting)

    @contextmanager
    def share(self, byte_count: int) -> Iterator[None]:
        """Wait for so many bytes and hold them for the block; a larger need than the bound gets all of it.

        A thread must not ask for a second share: it could wait for itself.
        """
        wanted = min(byte_count, self._limit_bytes)
        self._take(wanted)
        try:
            yield
        finally:
            with self._changed:
                self._held_bytes -= wanted
                self._changed.notify_all()

    def _take(self, wanted: int) -> None:
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            try:
                # In order, so that small shares do not overtake a large one for ever.
                self._changed.wait_for(
                    lambda: self._waiting[0] is turn and self._held_bytes + wanted <= self._limit_bytes
                )
                self._held_bytes += wanted
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()


class PiecesInFlight:
    """Counts the bytes that a store holds. Memory comes back in any thread."""

    def __init__(self) -> None:
        # The lock may be taken again by its owner: memory can come back at any step of the interpreter.
        self._changed = threading.Condition(threading.RLock())
        # By number: references to equal pieces are equal.
        self._references: dict[int, weakref.ref[memoryview]] = {}
        self._count = 0
        self._bytes = 0

    def track(self, piece: bytes) -> memoryview:
        """Return a view of a piece to hand over; the caller must not keep it."""
        view = memoryview(piece)
        length = len(view)
        with self._changed:
            number = self._count = self._count + 1

            def released(_reference: weakref.ref[memoryview]) -> None:
                with self._changed:
                    del self._references[number]
                    self._bytes -= length
                    self._changed.notify_all()

            self._references[number] = weakref.ref(view, released)
            self._bytes += length
        return view

    def wait(self, at_most: int) -> bool:
        """Wait until the store holds no more than that many bytes. Return False if it keeps them."""
        with self._changed:
            return self._changed.wait_for(lambda: self._bytes <= at_most, _PATIENCE_S)
