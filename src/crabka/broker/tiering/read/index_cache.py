"""Indexes of remote segments: those in use in memory, recent ones on disk, each fetched once for all readers.

Bounded by `remote.log.index.file.cache.total.size.bytes` on disk and a fixed share of memory; what was not used for
`remote.log.index.file.cache.ttl.ms` is removed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from crabka.broker.tiering.read.index_files import DEFAULT_RULES, LoadRules, file_name
from crabka.remote.segments import IndexType

if TYPE_CHECKING:
    import asyncio
    import uuid
    from collections.abc import Callable, Sequence

    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.index_files import IndexFiles, IndexKey, LoadedIndex
    from crabka.broker.tiering.read.pool import ReaderPool
    from crabka.formats.offset_index import OffsetIndex
    from crabka.formats.time_index import TimeIndex
    from crabka.formats.transaction_index import AbortedTransaction
    from crabka.ports import Clock
    from crabka.remote.segments import RemoteLogSegmentMetadata

MEMORY_BYTES: Final = 64 * 1024 * 1024
# What an index without entries takes, so that their number is bounded as well.
_MIN_BYTES: Final = 1024
_FOREVER: Final = -1


class IndexCacheLimits(NamedTuple):
    """How much is kept on disk, and for how long."""

    max_bytes: int
    ttl_ms: int


class _File(NamedTuple):
    name: str
    size_bytes: int
    used_ms: int


class RemoteIndexCache:
    """Indexes by segment and kind, the least recently used first. Only for the loop."""

    def __init__(
        self, files: IndexFiles, pool: ReaderPool, clock: Clock, limits: Callable[[], IndexCacheLimits]
    ) -> None:
        self._files = files
        self._pool = pool
        self._clock = clock
        self._limits = limits
        self._on_disk: OrderedDict[IndexKey, _File] = OrderedDict()
        self._disk_bytes = 0
        self._in_memory: OrderedDict[IndexKey, tuple[asyncio.Future[LoadedIndex], int]] = OrderedDict()
        self._memory_bytes = 0

    @property
    def disk_bytes(self) -> int:
        """Return the bytes of all files."""
        return self._disk_bytes

    async def open(self) -> None:
        """Take over what an earlier run has left on disk."""
        now_ms = self._clock.monotonic_ms()
        for stored in await self._pool.submit(self._files.open):
            if stored.key not in self._on_disk:
                self._on_disk[stored.key] = _File(stored.name, stored.size_bytes, now_ms)
                self._disk_bytes += stored.size_bytes
        self.expire()

    async def offsets(self, segment: RemoteLogSegmentMetadata, deadline: Deadline) -> OffsetIndex:
        """Return the offset index; an empty one if the tier has none that makes sense.

        Raises RemoteWaitOverError, RemoteStorageError; so do the others.
        """
        return cast("OffsetIndex", (await deadline.wait(self.get(segment, IndexType.OFFSET))).content)

    async def times(self, segment: RemoteLogSegmentMetadata, deadline: Deadline) -> TimeIndex:
        """Return the time index; an empty one if the tier has none that makes sense."""
        return cast("TimeIndex", (await deadline.wait(self.get(segment, IndexType.TIMESTAMP))).content)

    async def aborted(
        self, segment: RemoteLogSegmentMetadata, deadline: Deadline, before: RemoteLogSegmentMetadata | None = None
    ) -> Sequence[AbortedTransaction]:
        """Return the entries of the transaction index; `before` is the segment that ends where this one begins."""
        loaded = await deadline.wait(self.get(segment, IndexType.TRANSACTION, LoadRules(before=before)))
        return cast("Sequence[AbortedTransaction]", loaded.content)

    def refetch(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> None:
        """Fetch an index anew, because what is kept of it may be damaged. Raises ReaderBusyError."""
        key = (segment.segment_id.id, kind)
        if key in self._in_memory:
            self._drop_from_memory(key)
        self.get(segment, kind, LoadRules(is_anew=True))

    def get(
        self, segment: RemoteLogSegmentMetadata, kind: IndexType, rules: LoadRules = DEFAULT_RULES
    ) -> asyncio.Future[LoadedIndex]:
        """Return an index, or the fetch of it. The future is shared: it must not be cancelled.

        Raises ReaderBusyError.
        """
        key = (segment.segment_id.id, kind)
        stored = self._on_disk.get(key)
        if stored is not None:
            self._on_disk[key] = stored._replace(used_ms=self._clock.monotonic_ms())
            self._on_disk.move_to_end(key)
        known = self._in_memory.get(key)
        if known is not None:
            self._in_memory.move_to_end(key)
            return known[0]
        future = self._pool.submit(self._files.load, segment, kind, rules)
        self._in_memory[key] = (future, 0)
        name = file_name(segment, kind)
        future.add_done_callback(lambda done: self._loaded(key, name, done))
        return future

    def forget(self, segment_id: uuid.UUID) -> None:
        """Drop the indexes of a segment that is deleted."""
        for key in [key for key in self._in_memory if key[0] == segment_id]:
            self._drop_from_memory(key)
        self._remove([key for key in self._on_disk if key[0] == segment_id])

    def expire(self) -> None:
        """Drop what was not used for too long, and what is too much."""
        limits, now_ms = self._limits(), self._clock.monotonic_ms()
        expired: list[IndexKey] = []
        excess = self._disk_bytes - limits.max_bytes
        for key, file in self._on_disk.items():
            is_old = limits.ttl_ms != _FOREVER and now_ms - file.used_ms > limits.ttl_ms
            if not is_old and excess <= 0:
                break
            expired.append(key)
            excess -= file.size_bytes
        self._remove(expired)

    def _loaded(self, key: IndexKey, name: str, future: asyncio.Future[LoadedIndex]) -> None:
        known = self._in_memory.get(key)
        if known is None or known[0] is not future:
            return
        if future.cancelled() or future.exception() is not None:
            del self._in_memory[key]
            return
        loaded = future.result()
        size = max(loaded.encoded_bytes, _MIN_BYTES)
        self._in_memory[key] = (future, size)
        self._memory_bytes += size
        if loaded.stored_bytes:
            before = self._on_disk.pop(key, None)
            self._disk_bytes += loaded.stored_bytes - (0 if before is None else before.size_bytes)
            self._on_disk[key] = _File(name, loaded.stored_bytes, self._clock.monotonic_ms())
        for oldest, (each, _) in list(self._in_memory.items()):
            if self._memory_bytes <= MEMORY_BYTES:
                break
            if each.done() and oldest != key:
                self._drop_from_memory(oldest)
        self.expire()

    def _drop_from_memory(self, key: IndexKey) -> None:
        _, size = self._in_memory.pop(key)
        self._memory_bytes -= size

    def _remove(self, keys: list[IndexKey]) -> None:
        names = []
        for key in keys:
            file = self._on_disk.pop(key)
            self._disk_bytes -= file.size_bytes
            names.append(file.name)
            if key in self._in_memory and self._in_memory[key][0].done():
                self._drop_from_memory(key)
        if names:
            self._pool.run_later(self._files.remove, names)
