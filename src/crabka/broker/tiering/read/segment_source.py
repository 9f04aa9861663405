"""Where the bytes of a remote segment come from during one read: chunks in memory, or a file of a tier on this machine.

A source checks first and waits only if it must: `peek` returns None when bytes are missing, `load` gets them. Loaded
bytes stay with the source until the read ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from crabka.broker.tiering.read.deadline import RemoteWaitOverError
from crabka.broker.tiering.read.pool import ReaderBusyError
from crabka.log.partition.reader import MIN_RANGE_BYTES
from crabka.ports import FileRange
from crabka.remote.errors import RemoteBackendError

if TYPE_CHECKING:
    import asyncio

    from crabka.broker.tiering.read.chunk_cache import ChunkCache
    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.pool import ReaderPool
    from crabka.log.segment.caches import Handle
    from crabka.ports import Buffer, Payload
    from crabka.remote.segments import RemoteLogSegmentMetadata


class SegmentSource(Protocol):
    """The bytes of one segment, for one reader."""

    size: int

    def peek(self, length: int, position: int) -> Buffer | None:
        """Return up to `length` bytes, fewer only at the end; None if they are not here."""

    async def load(self, length: int, position: int, deadline: Deadline) -> int:
        """Get bytes here, so that `peek` has them; return how many came in time, from the first one on.

        Raises RemoteStorageError if the tier fails before the first byte.
        """

    def payloads(self, length: int, position: int) -> list[Payload]:
        """Return loaded bytes as they go into a response, without a copy where that is possible."""

    def read(self, length: int, position: int) -> Buffer:
        """Return bytes that are loaded, or can be read at once, in a thread. Raises RemoteBackendError."""


class ChunkSource:
    """A segment of which chunks are downloaded."""

    __slots__ = ("_cache", "_chunks", "_segment", "size")

    def __init__(self, cache: ChunkCache, segment: RemoteLogSegmentMetadata) -> None:
        self._cache = cache
        self._segment = segment
        self._chunks: dict[int, memoryview] = {}
        self.size = segment.segment_size_bytes

    def peek(self, length: int, position: int) -> Buffer | None:
        """Return bytes of loaded chunks; those of two chunks are joined."""
        end = min(position + length, self.size)
        pieces = self._pieces(position, end)
        if pieces is None:
            return None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def load(self, length: int, position: int, deadline: Deadline) -> int:
        """Download the chunks of a range, all at once, and take those that came before the first that is late."""
        end = min(position + length, self.size)
        if end <= position:
            return 0
        chunk_bytes = self._cache.chunk_bytes
        first = position // chunk_bytes
        numbers = range(first, (end - 1) // chunk_bytes + 1)
        futures = self._request(numbers)
        await deadline.reach(*futures.values())
        for number in numbers:
            if number not in self._chunks and not self._keep(number, futures.get(number), is_first=number == first):
                return max(0, number * chunk_bytes - position)
        return end - position

    def payloads(self, length: int, position: int) -> list[Payload]:
        """Return views of the chunks."""
        return [*(self._pieces(position, position + length) or ())]

    def read(self, length: int, position: int) -> Buffer:
        """Return bytes of loaded chunks, as far as they are there; those of two chunks are joined."""
        end = min(position + length, self.size)
        chunk_bytes = self._cache.chunk_bytes
        while (end - 1) // chunk_bytes not in self._chunks and end > position:
            end = (end - 1) // chunk_bytes * chunk_bytes
        found = self.peek(end - position, position) if end > position else None
        if found is None:
            raise RemoteBackendError(f"bytes from position {position} on are not here")
        return found

    def _request(self, numbers: range) -> dict[int, asyncio.Future[memoryview]]:
        """Begin all downloads that there is room for, but at least that of the first chunk."""
        futures: dict[int, asyncio.Future[memoryview]] = {}
        for number in numbers:
            if number in self._chunks:
                continue
            try:
                futures[number] = self._cache.get(self._segment, number)
            except ReaderBusyError:
                if number == numbers[0]:
                    raise
                break
        return futures

    def _keep(self, number: int, future: asyncio.Future[memoryview] | None, *, is_first: bool) -> bool:
        if future is None or not future.done() or future.cancelled():
            return False
        failure = future.exception()
        if failure is None:
            self._chunks[number] = future.result()
        elif is_first:
            raise failure
        return failure is None

    def _pieces(self, position: int, end: int) -> list[memoryview] | None:
        chunk_bytes = self._cache.chunk_bytes
        pieces = []
        while position < end:
            number = position // chunk_bytes
            chunk = self._chunks.get(number)
            if chunk is None:
                return None
            start = number * chunk_bytes
            pieces.append(chunk[position - start : end - start])
            position = start + chunk_bytes
        return pieces or [memoryview(b"")]


class FileSource:
    """A segment that is a file on this machine: what is in the page cache is sent from there."""

    __slots__ = ("_handle", "_loaded", "_loaded_at", "_pool", "size")

    def __init__(self, handle: Handle, pool: ReaderPool, segment: RemoteLogSegmentMetadata) -> None:
        self._handle = handle
        self._pool = pool
        self._loaded: memoryview = memoryview(b"")
        self._loaded_at = 0
        self.size = segment.segment_size_bytes

    def peek(self, length: int, position: int) -> Buffer | None:
        """Return bytes that were loaded or are in the page cache."""
        length = min(length, self.size - position)
        return self._of_loaded(length, position) or self._handle.file.pread_nowait(length, position)

    async def load(self, length: int, position: int, deadline: Deadline) -> int:
        """Look whether the page cache has the bytes, else read them in a thread."""
        file = self._handle.file
        length = min(length, self.size - position)
        if length <= 0 or self._of_loaded(length, position) is not None:
            return max(0, length)
        if length >= MIN_RANGE_BYTES and file.in_memory(length, position):
            return length
        data = file.pread_nowait(length, position)
        if data is None:
            try:
                data = await deadline.wait(self._pool.submit(self._read, length, position))
            except RemoteWaitOverError:
                return 0
        if len(data) < length:
            raise RemoteBackendError(f"{file.path} ends before {position + length}")
        self._loaded, self._loaded_at = memoryview(data), position
        return length

    def payloads(self, length: int, position: int) -> list[Payload]:
        """Return a range of the file, or the bytes if they were read or are few."""
        data = self._of_loaded(length, position)
        if data is None and length < MIN_RANGE_BYTES:
            data = self._handle.file.pread_nowait(length, position)
        return [FileRange(self._handle.file, position, length, self._handle) if data is None else data]

    def read(self, length: int, position: int) -> Buffer:
        """Return bytes of the file, which may have to come from the disk."""
        return self._read(length, position)

    def _of_loaded(self, length: int, position: int) -> Buffer | None:
        start = position - self._loaded_at
        return self._loaded[start : start + length] if start >= 0 and start + length <= len(self._loaded) else None

    def _read(self, length: int, position: int) -> bytes:
        """Runs in a thread."""
        try:
            return self._handle.file.pread(length, position)
        except OSError as error:
            raise RemoteBackendError(f"cannot read {self._handle.file.path}: {error}") from error
