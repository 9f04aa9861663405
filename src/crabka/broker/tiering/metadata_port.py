"""The tier's metadata as the broker uses it: reads answer at once from memory, changes are awaited on the loop.

A metadata manager of KIP-405 blocks in its changes, so they run in a pool. The topic-based one has coroutines for them,
which are used instead: nothing must block in the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from crabka.remote.switching import SwappableRlmm

if TYPE_CHECKING:
    from crabka.ports import Threads
    from crabka.remote.metadata_manager import RemoteLogMetadataManager
    from crabka.remote.segments import (
        RemoteLogSegmentId,
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
        TopicIdPartition,
    )


class TierMetadata(Protocol):
    """Which remote segments exist. Reads raise NotReadyError while that is not known yet."""

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that holds an offset that was written in an epoch."""
        ...

    def highest_offset_for_epoch(self, partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied."""
        ...

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return segments in all states by start offset: those of an epoch, or all."""
        ...

    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of the segments that hold records of an epoch."""
        ...

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on."""
        ...

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Learn that this node leads and follows these partitions from now on."""
        ...

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Learn that this node has no replica of these partitions any more."""
        ...

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether reads of a partition answer with something else than NotReadyError."""
        ...

    def partitions_of_own(self) -> Collection[TopicIdPartition]:
        """Return the partitions of which anything is known, and whose metadata this broker has to look after."""
        ...

    async def catch_up(self, partition: TopicIdPartition) -> None:
        """Return when reads know all that any broker had stored of a partition at the call. Raises NotReadyError."""
        ...

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins. Raises InvalidAddError, NotReadyError."""
        ...

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment. Raises InvalidSegmentTransitionError, NotReadyError."""
        ...

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition. Raises InvalidPartitionDeleteTransitionError, NotReadyError."""
        ...


@runtime_checkable
class AwaitableChanges(Protocol):
    """A metadata manager whose changes can be awaited on the loop."""

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins."""
        ...

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment."""
        ...

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition."""
        ...


@runtime_checkable
class CatchesUp(Protocol):
    """A metadata manager that knows what other brokers change only after a while."""

    async def catch_up(self, partition: TopicIdPartition) -> None:
        """Return when it knows all that was stored of a partition at the call."""
        ...


@runtime_checkable
class HasDoubts(Protocol):
    """A metadata manager whose answers can turn out to be void, after an unclean election where it keeps its events."""

    def subscribe_doubts(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop then; the partitions concerned are not ready at that moment."""
        ...


@runtime_checkable
class OwnsPartitions(Protocol):
    """A metadata manager that shares the care for partitions that nobody leads among brokers."""

    def partitions_of_own(self) -> Collection[TopicIdPartition]:
        """Return the known partitions that this broker looks after."""
        ...


class PooledTierMetadata:
    """A metadata manager behind the port: its changes are awaited if it allows for that, else they block in a pool."""

    def __init__(self, rlmm: RemoteLogMetadataManager, threads: Threads) -> None:
        self._rlmm = rlmm
        self._threads = threads

    def _current(self) -> RemoteLogMetadataManager:
        return self._rlmm.inner if isinstance(self._rlmm, SwappableRlmm) else self._rlmm

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that holds an offset that was written in an epoch."""
        return self._rlmm.remote_log_segment_metadata(partition, leader_epoch, offset)

    def highest_offset_for_epoch(self, partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied."""
        return self._rlmm.highest_offset_for_epoch(partition, leader_epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return segments in all states by start offset: those of an epoch, or all."""
        return self._rlmm.list_remote_log_segments(partition, leader_epoch)

    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of the segments that hold records of an epoch."""
        return self._rlmm.remote_log_size(partition, leader_epoch)

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on."""
        return self._rlmm.next_segment_with_txn_index(partition, leader_epoch, offset)

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Learn that this node leads and follows these partitions from now on."""
        self._rlmm.on_partition_leadership_changes(leaders, followers)

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Learn that this node has no replica of these partitions any more."""
        self._rlmm.on_stop_partitions(partitions)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether reads of a partition answer with something else than NotReadyError."""
        return self._rlmm.is_ready(partition)

    def partitions_of_own(self) -> Collection[TopicIdPartition]:
        """Return the partitions that the manager tells; one that cannot leaves unfinished deletions unfinished."""
        manager = self._current()
        return manager.partitions_of_own() if isinstance(manager, OwnsPartitions) else ()

    async def catch_up(self, partition: TopicIdPartition) -> None:
        """Return when reads know all that any broker had stored of a partition at the call. Raises NotReadyError."""
        manager = self._current()
        if isinstance(manager, CatchesUp):
            await manager.catch_up(partition)

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins. Raises InvalidAddError, NotReadyError."""
        manager = self._current()
        if isinstance(manager, AwaitableChanges):
            await manager.add_segment(metadata)
        else:
            await self._threads.submit(manager.add_remote_log_segment_metadata, metadata)

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment. Raises InvalidSegmentTransitionError, NotReadyError."""
        manager = self._current()
        if isinstance(manager, AwaitableChanges):
            await manager.update_segment(update)
        else:
            await self._threads.submit(manager.update_remote_log_segment_metadata, update)

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition. Raises InvalidPartitionDeleteTransitionError, NotReadyError."""
        manager = self._current()
        if isinstance(manager, AwaitableChanges):
            await manager.put_partition_delete(metadata)
        else:
            await self._threads.submit(manager.put_remote_partition_delete_metadata, metadata)


class PartitionLookup:
    """What the metadata says of one partition, for the planners."""

    __slots__ = ("_metadata", "_partition", "_without")

    def __init__(
        self, metadata: TierMetadata, partition: TopicIdPartition, without: Container[RemoteLogSegmentId] = ()
    ) -> None:
        """Leave out the segments `without`, which are finished perhaps, but about to go."""
        self._metadata = metadata
        self._partition = partition
        self._without = without

    def highest_offset(self, epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied."""
        return self._metadata.highest_offset_for_epoch(self._partition, epoch)

    def segment_at(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment with an offset of an epoch."""
        found = self._metadata.remote_log_segment_metadata(self._partition, epoch, offset)
        return None if found is None or found.segment_id in self._without else found
