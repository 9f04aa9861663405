"""The metadata of the tier as the broker uses it: reads return at once from memory, changes are awaited on the loop.

A broker has a `TierMetadata` from its start. Its manager arrives when the metadata topic answers; before that every
call raises NotReadyError, and the broker serves local data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator
from typing import TYPE_CHECKING, Protocol

from crabka.remote.errors import NotReadyError
from crabka.remote.removal_notice import NOTICE_EPOCH, is_active_notice

if TYPE_CHECKING:
    from crabka.remote.segments import (
        RemoteLogSegmentId,
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
        TopicIdPartition,
    )


class TierMetadataManager(Protocol):
    """A metadata manager whose changes are awaited on the loop; `TopicBasedRemoteLogMetadataManager` is one.

    All methods raise NotReadyError while it does not know the partition to its end.
    """

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

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on."""
        ...

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Note that this node leads and follows these partitions from now on."""
        ...

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Note that this node has no replica of these partitions any more."""
        ...

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether reads of a partition succeed."""
        ...

    def partitions_of_own(self) -> Collection[TopicIdPartition]:
        """Return the known partitions whose metadata partition this broker leads."""
        ...

    async def catch_up(self, partition: TopicIdPartition) -> None:
        """Return when reads include all that any broker had stored of a partition at the call."""
        ...

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins. Raises InvalidAddError."""
        ...

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment. Raises InvalidSegmentTransitionError."""
        ...

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition. Raises InvalidPartitionDeleteTransitionError."""
        ...

    def subscribe_doubts(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop when earlier reads may be wrong; the partitions are not ready at that moment.

        That is so after an unclean election where the manager keeps its events.
        """
        ...


class TierMetadata:
    """The metadata of the tier, with or without its manager. Changes belong to the loop, reads to any thread."""

    def __init__(self) -> None:
        self._manager: TierMetadataManager | None = None
        # True for a leader. A dict, since the order of partitions must not depend on hashes.
        self._replicas: dict[TopicIdPartition, bool] = {}

    def install(self, manager: TierMetadataManager) -> None:
        """Use a manager from now on and pass it the replicas of this node. A call in progress ends with the old one."""
        if self._replicas:
            manager.on_partition_leadership_changes(
                [partition for partition, leads in self._replicas.items() if leads],
                [partition for partition, leads in self._replicas.items() if not leads],
            )
        self._manager = manager

    # -- replicas of this node -------------------------------------------------------------------------------------

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Note that this node leads and follows these partitions from now on."""
        self._replicas.update(dict.fromkeys(leaders, True) | dict.fromkeys(followers, False))
        if self._manager is not None:
            self._manager.on_partition_leadership_changes(leaders, followers)

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Note that this node has no replica of these partitions any more."""
        for partition in partitions:
            self._replicas.pop(partition, None)
        if self._manager is not None:
            self._manager.on_stop_partitions(partitions)

    # -- reads; all but `is_ready` and `partitions_of_own` raise NotReadyError -----------------------------------------

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether reads of a partition succeed."""
        return self._manager is not None and self._manager.is_ready(partition)

    def require_ready(self, partition: TopicIdPartition) -> None:
        """Raise NotReadyError unless reads of a partition succeed."""
        if not self.is_ready(partition):
            raise NotReadyError(f"the remote metadata of {partition} is not known yet")

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that holds an offset that was written in an epoch."""
        return self._for(partition).remote_log_segment_metadata(partition, leader_epoch, offset)

    def highest_offset_for_epoch(self, partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied."""
        return self._for(partition).highest_offset_for_epoch(partition, leader_epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return segments in all states by start offset: those of an epoch, or all."""
        return self._for(partition).list_remote_log_segments(partition, leader_epoch)

    def active_notices(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """Return the removal notices that make all segments of a partition unusable."""
        return [each for each in self.list_remote_log_segments(partition, NOTICE_EPOCH) if is_active_notice(each)]

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on."""
        return self._for(partition).next_segment_with_txn_index(partition, leader_epoch, offset)

    def partitions_of_own(self) -> Collection[TopicIdPartition]:
        """Return the known partitions whose metadata partition this broker leads."""
        return () if self._manager is None else self._manager.partitions_of_own()

    async def catch_up(self, partition: TopicIdPartition) -> None:
        """Return when reads include all that any broker had stored of a partition at the call."""
        await self._for(partition).catch_up(partition)

    # -- changes; they return when they are stored and visible here, and raise NotReadyError ---------------------------

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins. Raises InvalidAddError."""
        await self._for(metadata.topic_id_partition).add_segment(metadata)

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment. Raises InvalidSegmentTransitionError."""
        await self._for(update.topic_id_partition).update_segment(update)

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition. Raises InvalidPartitionDeleteTransitionError."""
        await self._for(metadata.topic_id_partition).put_partition_delete(metadata)

    def _for(self, partition: TopicIdPartition) -> TierMetadataManager:
        if self._manager is None:
            raise NotReadyError(f"the metadata of {partition} is not loaded yet")
        return self._manager


class PartitionLookup:
    """The metadata of one partition, for the planners."""

    __slots__ = ("_metadata", "_partition", "_without")

    def __init__(
        self, metadata: TierMetadata, partition: TopicIdPartition, without: Container[RemoteLogSegmentId] = ()
    ) -> None:
        """Leave out the segments `without`: they may be finished, but are being removed."""
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
