"""The local files that make up a segment, as every storage reads them.

What goes wrong with them is an OSError and stays one: it is not the tier's fault.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from crabka.ports import File, FileSystem
from crabka.remote.segments import IndexType, LogSegmentData
from crabka.vfs import read_file

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
