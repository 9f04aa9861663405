"""What all reads of the tier share: the store, its metadata, the caches and the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.broker.tiering.segment_source import ChunkSource, FileSource
from crabka.log.caches import Handle, LruCache
from crabka.remote.errors import RemoteBackendError, RemoteStorageError
from crabka.remote.segments import IndexType

if TYPE_CHECKING:
    import uuid

    from crabka.broker.tiering.chunk_cache import ChunkCache
    from crabka.broker.tiering.deadline import Deadline
    from crabka.broker.tiering.index_cache import RemoteIndexCache
    from crabka.broker.tiering.reader_pool import ReaderPool
    from crabka.broker.tiering.remote_log import SegmentLookup
    from crabka.broker.tiering.segment_source import SegmentSource
    from crabka.broker.tiering.stats import TierStats
    from crabka.ports import Clock, File
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager

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
    ) -> None:
        self.storage = storage
        self.lookup = lookup
        self.pool = pool
        self.chunks = chunks
        self.indexes = indexes
        self.clock = clock
        self.stats = stats
        # Whether the tier has shown to be made of files on this machine.
        self.is_local = False
        self._asks_for_files = True
        self._files: LruCache[Handle] = LruCache(_MAX_OPEN_FILES)

    async def source(self, segment: RemoteLogSegmentMetadata, deadline: Deadline) -> SegmentSource:
        """Return where to read a segment from. Raises RemoteStorageError, RemoteWaitOverError."""
        if self._asks_for_files:
            handle = self._files.find(str(segment.segment_id.id))
            if handle is None:
                handle = await self._open(segment, deadline)
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
        self._files.forget(str(segment_id))

    async def _open(self, segment: RemoteLogSegmentMetadata, deadline: Deadline) -> Handle | None:
        file = await deadline.wait(self.pool.submit(_open_file, self.storage, segment))
        self.is_local = file is not None
        self._asks_for_files = self.is_local
        if file is None:
            return None
        handle = Handle(file)
        self._files.put(str(segment.segment_id.id), handle)
        return handle


def _open_file(storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> File | None:
    """Runs in a thread."""
    file = storage.open_local(segment)
    if file is not None and file.size() < segment.segment_size_bytes:
        file.close()
        raise RemoteBackendError(f"{file.path} is shorter than {segment.segment_size_bytes} bytes", retriable=False)
    return file
