"""A metadata manager that can be exchanged while it is in use.

The broker holds a `SwappableRlmm` from its first moment on. Until the metadata topic answers, what stands behind it is
`NotReadyRlmm`: local data is served meanwhile, and whatever needs the tier is told to try again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Never

from crabka.remote.errors import NotReadyError
from crabka.remote.metadata_manager import RemoteLogMetadataManager

if TYPE_CHECKING:
    from crabka.remote.segments import (
        RemoteLogSegmentMetadata,
        RemoteLogSegmentMetadataUpdate,
        RemotePartitionDeleteMetadata,
        TopicIdPartition,
    )


class NotReadyRlmm(RemoteLogMetadataManager):
    """Knows nothing yet: everything but notices raises NotReadyError."""

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Raise NotReadyError."""
        _refuse(metadata.topic_id_partition)

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Raise NotReadyError."""
        _refuse(update.topic_id_partition)

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Raise NotReadyError."""
        _refuse(metadata.topic_id_partition)

    def remote_log_segment_metadata(
        self,
        partition: TopicIdPartition,
        leader_epoch: int,  # noqa: ARG002 - the same answer for all
        offset: int,  # noqa: ARG002 - the same answer for all
    ) -> RemoteLogSegmentMetadata | None:
        """Raise NotReadyError."""
        _refuse(partition)

    def highest_offset_for_epoch(
        self,
        partition: TopicIdPartition,
        leader_epoch: int,  # noqa: ARG002 - the same answer for all
    ) -> int | None:
        """Raise NotReadyError."""
        _refuse(partition)

    def list_remote_log_segments(
        self,
        partition: TopicIdPartition,
        leader_epoch: int | None = None,  # noqa: ARG002 - the same answer for all
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Raise NotReadyError."""
        _refuse(partition)

    def remote_log_size(
        self,
        partition: TopicIdPartition,
        leader_epoch: int,  # noqa: ARG002 - the same answer for all
    ) -> int:
        """Raise NotReadyError."""
        _refuse(partition)

    def next_segment_with_txn_index(
        self,
        partition: TopicIdPartition,
        leader_epoch: int,  # noqa: ARG002 - the same answer for all
        offset: int,  # noqa: ARG002 - the same answer for all
    ) -> RemoteLogSegmentMetadata | None:
        """Raise NotReadyError."""
        _refuse(partition)

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Do nothing: `SwappableRlmm` tells the next manager."""

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Do nothing: `SwappableRlmm` tells the next manager."""

    def is_ready(self, partition: TopicIdPartition) -> bool:  # noqa: ARG002 - the same answer for all
        """Return False."""
        return False


class SwappableRlmm(RemoteLogMetadataManager):
    """Hands every call to the manager that it holds at that moment. Thread-safe.

    It remembers which partitions the node leads and follows, so that a manager that comes later learns of all of them.
    """

    def __init__(self, inner: RemoteLogMetadataManager) -> None:
        self._inner = inner
        # Held while replicas change and while managers do, so that each manager hears of each change in its order.
        self._lock = Lock()
        # True for a leader. A dict, since the order of partitions must not depend on hashes.
        self._replicas: dict[TopicIdPartition, bool] = {}

    @property
    def inner(self) -> RemoteLogMetadataManager:
        """The manager that answers at the moment."""
        return self._inner

    def swap(self, new: RemoteLogMetadataManager) -> RemoteLogMetadataManager:
        """Let another manager answer from now on; return the old one, which the caller closes.

        A call that is under way ends with the old one.
        """
        with self._lock:
            if self._replicas:
                new.on_partition_leadership_changes(
                    [partition for partition, leads in self._replicas.items() if leads],
                    [partition for partition, leads in self._replicas.items() if not leads],
                )
            old, self._inner = self._inner, new
        return old

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins."""
        self._inner.add_remote_log_segment_metadata(metadata)

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment."""
        self._inner.update_remote_log_segment_metadata(update)

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition."""
        self._inner.put_remote_partition_delete_metadata(metadata)

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that holds an offset that was written in an epoch."""
        return self._inner.remote_log_segment_metadata(partition, leader_epoch, offset)

    def highest_offset_for_epoch(self, partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied."""
        return self._inner.highest_offset_for_epoch(partition, leader_epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return segments in all states by start offset."""
        return self._inner.list_remote_log_segments(partition, leader_epoch)

    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of the finished segments that hold records of an epoch."""
        return self._inner.remote_log_size(partition, leader_epoch)

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on."""
        return self._inner.next_segment_with_txn_index(partition, leader_epoch, offset)

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Remember the replicas and tell the manager."""
        with self._lock:
            self._replicas.update(dict.fromkeys(leaders, True) | dict.fromkeys(followers, False))
            self._inner.on_partition_leadership_changes(leaders, followers)

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Forget the replicas and tell the manager."""
        with self._lock:
            for partition in partitions:
                self._replicas.pop(partition, None)
            self._inner.on_stop_partitions(partitions)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether the manager is ready for a partition."""
        return self._inner.is_ready(partition)

    def close(self) -> None:
        """Close the manager."""
        self._inner.close()


def _refuse(partition: TopicIdPartition) -> Never:
    raise NotReadyError(f"the metadata of {partition} is not loaded yet")
