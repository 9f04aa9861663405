"""Metadata of remote segments in memory: the whole state machine without storage.

For tests and single processes; a manager that stores events elsewhere keeps one as its view of them, and writes
snapshots with `dump`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from crabka.remote.lifecycle import require_partition_delete_transition
from crabka.remote.metadata_cache import RemoteLogMetadataCache
from crabka.remote.metadata_manager import RemoteLogMetadataManager
from crabka.remote.segments import RemoteLogSegmentState, RemotePartitionDeleteState, TopicIdPartition

if TYPE_CHECKING:
    from crabka.remote.segments import (
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
    )

SegmentStep: TypeAlias = tuple[int, RemoteLogSegmentState, int, int]
"""The number that is a segment's id, its new state, the broker and the time of the event. A tuple, for speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDump:
    """All that is known of the segments of a partition.

    The order of `segments` is to be kept: it says which of two equal ones is found. `highest_offsets` has (epoch,
    offset), also of segments that are gone.
    """

    topic_id_partition: TopicIdPartition
    segments: tuple[RemoteLogSegmentMetadata, ...] = ()
    highest_offsets: tuple[tuple[int, int], ...] = ()
    partition_delete: RemotePartitionDeleteMetadata | None = None


@dataclass(frozen=True, slots=True)
class RlmmCacheDump:
    """What a metadata manager knows, by partition."""

    partitions: tuple[PartitionDump, ...] = ()


# What readers find of an unknown partition; never changed.
_UNKNOWN = RemoteLogMetadataCache()


class InmemoryRemoteLogMetadataManager(RemoteLogMetadataManager):
    """Knows the changes since it was made, and is always ready. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins. Raises InvalidAddError."""
        partition = metadata.topic_id_partition
        with self._lock:
            cache = self._caches.get(partition)
            if cache is not None:
                cache.add(metadata)
                return
            cache = RemoteLogMetadataCache()
            cache.add(metadata)
            self._caches[partition] = cache

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment. Raises InvalidSegmentTransitionError."""
        with self._lock:
            self._cache(update.topic_id_partition).update(update)

    def take_step(self, partition: TopicIdPartition, step: SegmentStep) -> bool:
        """Do what an update does with a step without custom metadata, for the replay of many.

        Returns False, and nothing changed, if it may not follow: an update says whether that is a retry or an error.
        """
        with self._lock:
            cache = self._caches.get(partition)
            return cache is not None and cache.take_step(*step)

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition; the last one forgets the partition.

        Raises InvalidPartitionDeleteTransitionError.
        """
        partition = metadata.topic_id_partition
        with self._lock:
            cache = self._cache(partition)
            if not require_partition_delete_transition(
                cache.partition_delete, metadata, has_segments=cache.has_segments
            ):
                return
            if metadata.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
                del self._caches[partition]
            else:
                cache.partition_delete = metadata
                self._caches[partition] = cache

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that holds an offset that was written in an epoch."""
        with self._lock:
            return self._caches.get(partition, _UNKNOWN).find(leader_epoch, offset)

    def highest_offset_for_epoch(self, partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied."""
        with self._lock:
            return self._caches.get(partition, _UNKNOWN).highest_offset(leader_epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return segments as they are now, by start offset; the iterator does not see later changes."""
        with self._lock:
            cache = self._caches.get(partition, _UNKNOWN)
            listed = list(cache.segments() if leader_epoch is None else cache.segments_of_epoch(leader_epoch))
        listed.sort(key=attrgetter("start_offset"))
        return iter(listed)

    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of the finished segments that hold records of an epoch."""
        with self._lock:
            return self._caches.get(partition, _UNKNOWN).size_bytes(leader_epoch)

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on."""
        with self._lock:
            return self._caches.get(partition, _UNKNOWN).find_with_txn_index(leader_epoch, offset)

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Do nothing: what is in memory is there for every partition."""

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Do nothing: there is no other source of the metadata."""

    def is_ready(self, partition: TopicIdPartition) -> bool:  # noqa: ARG002 - ready for every partition
        """Return True."""
        return True

    def partitions(self) -> list[TopicIdPartition]:
        """Return the partitions of which anything is known."""
        with self._lock:
            return list(self._caches)

    def partition_delete_metadata(self, partition: TopicIdPartition) -> RemotePartitionDeleteMetadata | None:
        """Return how far the deletion of a partition is; None if it has not begun or is finished."""
        with self._lock:
            return self._caches.get(partition, _UNKNOWN).partition_delete

    def forget(self, partitions: Collection[TopicIdPartition]) -> None:
        """Drop all that is known of partitions."""
        with self._lock:
            for partition in partitions:
                self._caches.pop(partition, None)

    def dump(self, partitions: Collection[TopicIdPartition] | None = None) -> RlmmCacheDump:
        """Return all that is known, of some partitions or of all."""
        with self._lock:
            wanted = self._caches if partitions is None else [name for name in partitions if name in self._caches]
            return RlmmCacheDump(tuple(_dump_of(name, self._caches[name]) for name in wanted))

    def load(self, dump: RlmmCacheDump) -> None:
        """Replace what is known of the partitions of a dump by its content, whatever the states; keep the others."""
        loaded = {entry.topic_id_partition: _cache_of(entry) for entry in dump.partitions}
        with self._lock:
            self._caches.update(loaded)

    def _cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """The cache of a partition that is to be changed; a new one, not kept yet, if nothing is known of it."""
        cache = self._caches.get(partition)
        return RemoteLogMetadataCache() if cache is None else cache


def _dump_of(partition: TopicIdPartition, cache: RemoteLogMetadataCache) -> PartitionDump:
    return PartitionDump(
        topic_id_partition=partition,
        segments=tuple(cache.segments()),
        highest_offsets=tuple(sorted(cache.highest_offsets.items())),
        partition_delete=cache.partition_delete,
    )


def _cache_of(entry: PartitionDump) -> RemoteLogMetadataCache:
    cache = RemoteLogMetadataCache()
    cache.load(entry.segments, dict(entry.highest_offsets))
    cache.partition_delete = entry.partition_delete
    return cache
