"""A chunk cache over a remote storage that counts its reads."""

from __future__ import annotations

from crabka.broker.tiering.read.chunk_cache import ChunkCache
from crabka.broker.tiering.read.pool import ReaderPool
from crabka.ports import Buffer
from crabka.remote.errors import RemoteStorageError
from crabka.remote.segments import RemoteLogSegmentMetadata
from crabka.testing.memory_storage import InmemoryRemoteStorage
from crabka.testing.remote_samples import sample_segment
from tests.support.tiers.remote_reading import HeldThreads

CHUNK = 100


CONTENT = bytes(range(250))


SEGMENT = sample_segment(1, (0, 9), size_bytes=len(CONTENT))


class CountingStorage(InmemoryRemoteStorage):
    """Has the same bytes for every segment, and counts the reads."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int]] = []
        self.failure: RemoteStorageError | None = None
        self.missing_bytes = 0

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Buffer:
        assert end is not None
        self.ranges.append((start, end))
        if self.failure is not None:
            raise self.failure
        return CONTENT[start : end + 1 - self.missing_bytes]


class ChunkWorld:
    def __init__(self, capacity_bytes: int = 1000) -> None:
        self.storage = CountingStorage()
        self.threads = HeldThreads()
        self.pool = ReaderPool(lambda _size: self.threads, size=lambda: 4, max_pending=100)
        self.downloaded: list[int] = []
        self.cache = ChunkCache(
            self.storage,
            self.pool,
            capacity_bytes=capacity_bytes,
            chunk_bytes=CHUNK,
            on_downloaded=self.downloaded.append,
        )
