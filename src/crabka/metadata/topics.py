"""Topics and partitions: their part of the image and how records change it (KIP-631, KIP-858, KIP-966)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from crabka.errors import CorruptDataError
from crabka.ids import DIRECTORY_MIGRATING
from crabka.metadata.draft import MappingDraft
from crabka.metadata.records import PartitionRecord, TopicRecord

# PartitionChangeRecord.leader: the leader stays.
NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_RECOVERY_STATE_CHANGE = -1


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition. `directories` has one entry per replica; the epochs count leader and any changes."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[UUID, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0

    def directory_of(self, broker_id: int) -> UUID:
        """Return the directory id that a replica is assigned to."""
        return self.directories[self.replicas.index(broker_id)]

    def merge(self, record: Any) -> PartitionImage:
        """Return the partition after a PartitionChangeRecord; every such record raises the partition epoch."""
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        directories = self._kept_directories(len(replicas)) if record.directories is None else tuple(record.directories)
        leader_changes = record.leader != NO_LEADER_CHANGE
        state = record.leader_recovery_state
        return PartitionImage(
            replicas=replicas,
            isr=self.isr if record.isr is None else tuple(record.isr),
            leader=record.leader if leader_changes else self.leader,
            leader_epoch=self.leader_epoch + 1 if leader_changes else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            directories=_directories(directories, len(replicas)),
            adding=self.adding if record.adding_replicas is None else tuple(record.adding_replicas),
            removing=self.removing if record.removing_replicas is None else tuple(record.removing_replicas),
            elr=self.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
            last_known_elr=self.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
            leader_recovery_state=self.leader_recovery_state if state == NO_RECOVERY_STATE_CHANGE else state,
        )

    def _kept_directories(self, replica_count: int) -> tuple[UUID, ...]:
        # A reassignment in a cluster older than KIP-858 changes the replicas and knows of no directories.
        is_older = len(self.directories) != replica_count and set(self.directories) == {DIRECTORY_MIGRATING}
        return () if is_older else self.directories


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic with its partitions by index."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionImage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, by id and by name."""

    by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    by_name: Mapping[str, TopicImage] = field(default_factory=dict)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """Return a partition by topic name and index."""
        found = self.by_name.get(topic)
        return None if found is None else found.partitions.get(index)

    def to_records(self) -> Iterator[Any]:
        """Yield the records that rebuild this part: each topic followed by its partitions."""
        for topic in self.by_id.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            for index, partition in topic.partitions.items():
                yield _partition_record(topic.topic_id, index, partition)


class TopicsDelta:
    """Changes of topics on top of an image.

    `created`, `changed` and `deleted` hold topic ids and do not overlap; a topic that comes and goes inside one
    delta is in none of them.
    """

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self._by_id = MappingDraft(image.by_id)
        self._by_name = MappingDraft(image.by_name)
        self._partitions: dict[UUID, dict[int, PartitionImage]] = {}
        self.created: set[UUID] = set()
        self.changed: set[UUID] = set()
        self.deleted: set[UUID] = set()

    def create_topic(self, record: Any) -> None:
        """Replay TopicRecord."""
        topic = TopicImage(record.name, record.topic_id)
        self._by_id.set(topic.topic_id, topic)
        self._by_name.set(topic.name, topic)
        self._partitions[topic.topic_id] = {}
        self.created.add(topic.topic_id)

    def remove_topic(self, record: Any) -> str:
        """Replay RemoveTopicRecord; return the name of the topic."""
        topic_id: UUID = record.topic_id
        topic = self._by_id.remove(topic_id)
        if topic is None:
            raise CorruptDataError("metadata", f"removal of topic {topic_id}, which does not exist")
        current = self._by_name.get(topic.name)
        if current is not None and current.topic_id == topic_id:
            self._by_name.remove(topic.name)
        self._partitions.pop(topic_id, None)
        self.created.discard(topic_id)
        self.changed.discard(topic_id)
        if topic_id in self._image.by_id:
            self.deleted.add(topic_id)
        return topic.name

    def create_partition(self, record: Any) -> None:
        """Replay PartitionRecord."""
        partition = PartitionImage(
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=_directories(tuple(record.directories), len(record.replicas)),
            adding=tuple(record.adding_replicas),
            removing=tuple(record.removing_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
        )
        self._writable_partitions(record.topic_id)[record.partition_id] = partition

    def change_partition(self, record: Any) -> None:
        """Replay PartitionChangeRecord."""
        partitions = self._writable_partitions(record.topic_id)
        partition = partitions.get(record.partition_id)
        if partition is None:
            raise CorruptDataError(
                "metadata", f"change of partition {record.partition_id} of {record.topic_id}: unknown"
            )
        partitions[record.partition_id] = partition.merge(record)

    def clear_elr(self, record: Any) -> None:
        """Replay ClearElrRecord: forget eligible leader replicas of one topic, or of all."""
        if record.topic_name:
            topic = self._by_name.get(record.topic_name)
            if topic is None:
                raise CorruptDataError(
                    "metadata", f"clearing of ELRs of topic {record.topic_name}, which does not exist"
                )
            topic_ids = [topic.topic_id]
        else:
            topic_ids = list(self._by_id.current)
        for topic_id in topic_ids:
            self._clear_elr_of(topic_id)

    def apply(self) -> TopicsImage:
        """Return the image with the changes."""
        for topic_id, partitions in self._partitions.items():
            topic = self._by_id.current[topic_id]
            fresh = TopicImage(topic.name, topic_id, partitions)
            self._by_id.set(topic_id, fresh)
            self._by_name.set(topic.name, fresh)
        if self._by_id.current is self._image.by_id:
            return self._image
        return TopicsImage(self._by_id.current, self._by_name.current)

    def _writable_partitions(self, topic_id: UUID) -> dict[int, PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topic = self._by_id.get(topic_id)
            if topic is None:
                raise CorruptDataError("metadata", f"change of a partition of topic {topic_id}, which does not exist")
            partitions = self._partitions[topic_id] = dict(topic.partitions)
        if topic_id not in self.created:
            self.changed.add(topic_id)
        return partitions

    def _clear_elr_of(self, topic_id: UUID) -> None:
        partitions = self._partitions.get(topic_id, self._by_id.current[topic_id].partitions)
        for index, partition in list(partitions.items()):
            if partition.elr or partition.last_known_elr:
                cleared = replace(partition, elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1)
                self._writable_partitions(topic_id)[index] = cleared


def _directories(directories: tuple[UUID, ...], count: int) -> tuple[UUID, ...]:
    """Records older than KIP-858 name no directories: their replicas count as migrating."""
    if not directories:
        return (DIRECTORY_MIGRATING,) * count
    if len(directories) != count:
        raise CorruptDataError("metadata", f"{len(directories)} directories for {count} replicas")
    return directories


def _partition_record(topic_id: UUID, index: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        # Tagged fields: left out when empty, as Kafka does.
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )
