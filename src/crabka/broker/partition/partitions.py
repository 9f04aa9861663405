"""The partitions that this node hosts, found by name and by topic id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabka.broker.partition.partition import Partition
    from crabka.ids import TopicId
    from crabka.metadata.image import MetadataImage


class PartitionRegistry:
    """Hosted partitions. Changed only by the metadata publisher, read by every request."""

    def __init__(self, image: Callable[[], MetadataImage] | None = None) -> None:
        # The newest metadata, which shows whether a partition that is not hosted here is elsewhere.
        self.image = image
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[TopicId, dict[int, Partition]] = {}
        # Replicas whose log dir failed: they exist, but cannot be read or written.
        self._offline: dict[tuple[TopicId | str, int], None] = {}

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._by_name.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))

    def add(self, partition: Partition) -> None:
        """Make a partition reachable for requests."""
        by_index = self._by_name.setdefault(partition.topic, {})
        self._by_id[partition.topic_id] = by_index
        by_index[partition.index] = partition

    def remove(self, partition: Partition) -> None:
        """Make a partition unreachable; the last one takes its topic along."""
        by_index = self._by_name.get(partition.topic)
        if by_index is None or by_index.get(partition.index) is not partition:
            return
        del by_index[partition.index]
        if not by_index:
            del self._by_name[partition.topic]
            del self._by_id[partition.topic_id]

    def of_topic(self, topic: str) -> dict[int, Partition]:
        """Return the hosted partitions of a topic by index; empty if there is none."""
        return self._by_name.get(topic, {})

    def get(self, topic: str, index: int) -> Partition | None:
        """Return a hosted partition by topic name, or None."""
        partitions = self._by_name.get(topic)
        return partitions.get(index) if partitions is not None else None

    def by_name(self, topic: str, index: int) -> Partition:
        """Return a hosted partition by topic name.

        Raises OperationError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER if other brokers host it, or
        KAFKA_STORAGE_ERROR if its disk failed.
        """
        partitions = self._by_name.get(topic)
        partition = partitions.get(index) if partitions is not None else None
        if partition is None:
            raise self._absent(topic, index, ErrorCode.unknown_topic_or_partition)
        return partition

    def by_id(self, topic_id: TopicId | None, index: int) -> Partition:
        """Return a hosted partition by topic id.

        Raises OperationError: UNKNOWN_TOPIC_ID if there is no such topic, UNKNOWN_TOPIC_OR_PARTITION for the index,
        NOT_LEADER_OR_FOLLOWER if other brokers host it, KAFKA_STORAGE_ERROR if its disk failed.
        """
        partitions = self._by_id.get(topic_id) if topic_id is not None else None
        partition = partitions.get(index) if partitions is not None else None
        if partition is None:
            unknown = ErrorCode.unknown_topic_id if partitions is None else ErrorCode.unknown_topic_or_partition
            raise self._absent(topic_id, index, unknown)
        return partition

    def add_offline(self, topic: str, topic_id: TopicId, index: int) -> None:
        """Remember a replica that cannot be served: requests for it get KAFKA_STORAGE_ERROR."""
        self._offline[topic, index] = None
        self._offline[topic_id, index] = None

    def is_offline(self, topic_id: TopicId, index: int) -> bool:
        """Return whether a replica is known to lie on a failed disk."""
        return (topic_id, index) in self._offline

    def forget_offline(self, topic: str, topic_id: TopicId, index: int | None = None) -> None:
        """Forget all failed replicas of a topic that was deleted, or one that is no longer to be here."""
        if self._offline:
            for key in [key for key in self._offline if key[0] in (topic, topic_id) and index in (None, key[1])]:
                del self._offline[key]

    def take_offline(self, log_dir: str) -> list[Partition]:
        """Make all partitions of a failed log dir unreachable; return them."""
        failed = [partition for partition in self if partition.log.log_dir == log_dir]
        for partition in failed:
            self.remove(partition)
            self.add_offline(partition.topic, partition.topic_id, partition.index)
            partition.retire(ErrorCode.kafka_storage_error)
        return failed

    def _absent(self, topic: TopicId | str | None, index: int, unknown: ErrorCode) -> OperationError:
        if topic is not None and (topic, index) in self._offline:
            return OperationError(ErrorCode.kafka_storage_error)
        topics = None if self.image is None else self.image().topics
        if topics is None or topic is None:
            return OperationError(unknown)
        known = topics.by_name.get(topic) if isinstance(topic, str) else topics.by_id.get(topic)
        if known is None:
            return OperationError(unknown)
        exists = index in known.partitions
        return OperationError(ErrorCode.not_leader_or_follower if exists else ErrorCode.unknown_topic_or_partition)
