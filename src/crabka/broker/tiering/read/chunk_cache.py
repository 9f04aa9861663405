"""Pieces of remote segments in memory, each downloaded once for all who want it.

A segment is cut into chunks at multiples of `chunk_bytes`. A download belongs to the cache: it continues when its
client has gone, and the next client finds it. Loaded and loading bytes together stay below a bound.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from crabka.broker.tiering.read.pool import ReaderBusyError
from crabka.remote.errors import RemoteBackendError

if TYPE_CHECKING:
    import asyncio
    import uuid
    from collections.abc import Callable

    from crabka.broker.tiering.read.pool import ReaderPool
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager

# A store works for each request as well as for each byte: with half of this, an S3 server takes a third more time.
CHUNK_BYTES: Final = 8 * 1024 * 1024
# Read-ahead may take this share of the cache, so that it does not evict chunks that a client waits for.
_AHEAD_SHARE: Final = 2


class ChunkCache:
    """Chunks by segment and number, the least recently used first. Only for the loop."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        pool: ReaderPool,
        *,
        capacity_bytes: int,
        chunk_bytes: int = CHUNK_BYTES,
        on_downloaded: Callable[[int], None] = lambda _: None,
        on_dropped: Callable[[uuid.UUID], None] = lambda _: None,
    ) -> None:
        """`on_dropped` receives segments of which chunks were dropped: the next reader downloads them again."""
        self._storage = storage
        self._pool = pool
        self._capacity_bytes = capacity_bytes
        self.chunk_bytes = chunk_bytes
        self._on_downloaded = on_downloaded
        self._on_dropped = on_dropped
        self._chunks: OrderedDict[tuple[uuid.UUID, int], tuple[asyncio.Future[memoryview], int]] = OrderedDict()
        self._size_bytes = 0
        self._loading_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Return the bytes that are here or on their way."""
        return self._size_bytes

    def get(self, segment: RemoteLogSegmentMetadata, number: int) -> asyncio.Future[memoryview]:
        """Return a chunk, or the download of it. The future is shared: it must not be cancelled.

        Raises ReaderBusyError if too much is on its way already.
        """
        key = (segment.segment_id.id, number)
        known = self._chunks.get(key)
        if known is not None:
            self._chunks.move_to_end(key)
            return known[0]
        return self._download(segment, number)

    def get_ahead(self, segment: RemoteLogSegmentMetadata, number: int) -> bool:
        """Begin to download a chunk that may be wanted soon; return False if there is no room for it now."""
        if (segment.segment_id.id, number) in self._chunks:
            return True
        if self._pool.queue_size or self._loading_bytes + self.chunk_bytes > self._capacity_bytes // _AHEAD_SHARE:
            return False
        self._download(segment, number)
        return True

    def forget(self, segment_id: uuid.UUID) -> None:
        """Drop all chunks of a segment that is deleted."""
        for key in [key for key in self._chunks if key[0] == segment_id]:
            self._drop(key)

    def _download(self, segment: RemoteLogSegmentMetadata, number: int) -> asyncio.Future[memoryview]:
        start = number * self.chunk_bytes
        size = min(self.chunk_bytes, segment.segment_size_bytes - start)
        if self._loading_bytes + size > self._capacity_bytes and self._loading_bytes:
            raise ReaderBusyError(f"{self._loading_bytes} bytes of the remote tier are on their way already")
        key = (segment.segment_id.id, number)
        future = self._pool.submit(self._fetch, segment, start, size)
        self._chunks[key] = (future, size)
        self._size_bytes += size
        self._loading_bytes += size
        future.add_done_callback(lambda done: self._loaded(key, done, size))
        self._make_room()
        return future

    def _fetch(self, segment: RemoteLogSegmentMetadata, start: int, size: int) -> memoryview:
        """Runs in a thread."""
        data = self._storage.fetch_log_segment(segment, start, start + size - 1)
        if len(data) != size:
            raise RemoteBackendError(f"{segment.segment_id}: {len(data)} bytes came instead of {size}, from {start} on")
        return memoryview(data).toreadonly()

    def _loaded(self, key: tuple[uuid.UUID, int], future: asyncio.Future[memoryview], size: int) -> None:
        self._loading_bytes -= size
        known = self._chunks.get(key)
        if future.cancelled() or future.exception() is not None:
            # The next reader retries.
            if known is not None and known[0] is future:
                self._drop(key)
            return
        self._on_downloaded(size)
        self._make_room()

    def _make_room(self) -> None:
        if self._size_bytes <= self._capacity_bytes:
            return
        for key, (future, _) in list(self._chunks.items()):
            if future.done():
                self._drop(key)
                if self._size_bytes <= self._capacity_bytes:
                    return

    def _drop(self, key: tuple[uuid.UUID, int]) -> None:
        _, size = self._chunks.pop(key)
        self._size_bytes -= size
        self._on_dropped(key[0])
