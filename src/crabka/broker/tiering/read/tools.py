"""What all reads of the tier share: the store, its metadata, the caches and the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.tiering.read.healing.surveys import SegmentSurveys
from crabka.broker.tiering.read.segment_source import ChunkSource, FileSource
from crabka.log.segment.caches import Handle, LruCache
from crabka.remote.errors import RemoteBackendError, RemoteStorageError
from crabka.remote.segments import IndexType
from crabka.remote.storage_manager import RemoteStorageManager

if TYPE_CHECKING:
    import asyncio
    import uuid

    from crabka.broker.tiering.read.chunk_cache import ChunkCache
    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.healing.verified_parts import VerifiedParts
    from crabka.broker.tiering.read.index_cache import RemoteIndexCache
    from crabka.broker.tiering.read.pool import ReaderPool
    from crabka.broker.tiering.read.remote_log import SegmentLookup
    from crabka.broker.tiering.read.segment_source import SegmentSource
    from crabka.broker.tiering.stats import TierStats
    from crabka.ports import Clock, File
    from crabka.remote.segments import RemoteLogSegmentMetadata

_MAX_OPEN_FILES: Final = 128


class ReadTools:
    """The parts that a read is made of."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        lookup: SegmentLookup,
        pool: ReaderPool,
        *,
        chunks: ChunkCache,
        indexes: RemoteIndexCache,
        clock: Clock,
        stats: TierStats,
        verified: VerifiedParts,
    ) -> None:
        self.storage = storage
        self.lookup = lookup
        self.pool = pool
        self.chunks = chunks
        self.indexes = indexes
        self.clock = clock
        self.stats = stats
        self.verified = verified
        self.surveys = SegmentSurveys(storage, pool, clock, stats)
        # Whether the tier may be made of files on this machine, until it says that it is not.
        self.is_local = type(storage).open_local is not RemoteStorageManager.open_local
        self._files: LruCache[Handle] = LruCache(_MAX_OPEN_FILES)
        self._opening: dict[uuid.UUID, asyncio.Future[File | None]] = {}

    async def source(self, segment: RemoteLogSegmentMetadata, deadline: Deadline) -> SegmentSource:
        """Return where to read a segment from. Raises RemoteStorageError, RemoteWaitOverError."""
        if self.is_local:
            segment_id = segment.segment_id.id
            if self._files.find(str(segment_id)) is None:
                await deadline.wait(self._open(segment))
            handle = self._files.find(str(segment_id))
            if handle is not None:
                return FileSource(handle, self.pool, segment)
        return ChunkSource(self.chunks, segment)

    def preload(self, segment: RemoteLogSegmentMetadata) -> None:
        """Fetch what the next read of a segment begins with."""
        try:
            self.indexes.get(segment, IndexType.OFFSET)
        except RemoteStorageError:
            return

    def forget(self, segment_id: uuid.UUID) -> None:
        """Drop what is kept of a segment that is deleted."""
        self.chunks.forget(segment_id)
        self.indexes.forget(segment_id)
        self.verified.forget(segment_id)
        self.surveys.forget(segment_id)
        self._files.forget(str(segment_id))

    def close(self) -> None:
        """Close files and threads; a store that hangs is not waited for."""
        self._files.clear()
        self.pool.close()

    def _open(self, segment: RemoteLogSegmentMetadata) -> asyncio.Future[File | None]:
        segment_id = segment.segment_id.id
        future = self._opening.get(segment_id)
        if future is None:
            future = self._opening[segment_id] = self.pool.submit(_open_file, self.storage, segment)
            # Called before the waiters, which then find the file in the cache.
            future.add_done_callback(lambda opened: self._opened(segment_id, opened))
        return future

    def _opened(self, segment_id: uuid.UUID, future: asyncio.Future[File | None]) -> None:
        del self._opening[segment_id]
        if future.cancelled() or future.exception() is not None:
            return
        file = future.result()
        if file is None:
            self.is_local = False
        else:
            self._files.put(str(segment_id), Handle(file))


def _open_file(storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> File | None:
    """Runs in a thread."""
    file = storage.open_local(segment)
    if file is not None and file.size() < segment.segment_size_bytes:
        file.close()
        raise RemoteBackendError(f"{file.path} is shorter than {segment.segment_size_bytes} bytes", retriable=False)
    return file
