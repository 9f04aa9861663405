"""The port of the remote tier's metadata: which segments exist and what state they are in (KIP-405).

Synchronous and thread-safe. Reads return from memory; a change returns when it is stored and visible here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabka.remote.segments import (
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
        TopicIdPartition,
    )


class RemoteLogMetadataManager(ABC):
    """Keeps metadata of segments. Unknown is None or empty; not known yet is NotReadyError."""

    @abstractmethod
    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins. Adding exactly the same again is fine. Raises InvalidAddError."""

    @abstractmethod
    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment. The same step again is fine. Raises InvalidSegmentTransitionError."""

    @abstractmethod
    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that holds an offset that was written in an epoch."""

    @abstractmethod
    def highest_offset_for_epoch(self, partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied; it stays when the segment is deleted."""

    @abstractmethod
    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return segments in all states by start offset: those of an epoch, or all."""

    @abstractmethod
    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition. Raises InvalidPartitionDeleteTransitionError."""

    @abstractmethod
    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of the segments that hold records of an epoch."""

    @abstractmethod
    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on."""

    @abstractmethod
    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Note that this node leads and follows these partitions from now on. Returns at once."""

    @abstractmethod
    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Note that this node has no replica of these partitions any more. Returns at once."""

    @abstractmethod
    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether reads of a partition succeed."""

    def close(self) -> None:  # noqa: B027 - nothing to close is fine
        """Close connections and tasks."""
