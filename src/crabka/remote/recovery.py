"""What a tier alone shows of its topics: enough to make a data dir from which a broker serves them. Values only."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverablePartition:
    """One partition as its tier shows it.

    `leader_epochs` are all epochs with their first offsets, as the newest segment knows them; `producer_snapshot` is
    the state of the producers at `end_offset`. `gaps` are offsets from, up to, that should be in the tier and are not.
    """

    topic_id_partition: TopicIdPartition
    log_start_offset: int
    end_offset: int
    leader_epochs: tuple[tuple[int, int], ...]
    producer_snapshot: bytes
    segments: tuple[RemoteLogSegmentMetadata, ...]
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.segment_size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class RecoverableTopic:
    """A topic with its id; partitions of which the tier has nothing are not among `partitions`, but they count."""

    name: str
    topic_id: uuid.UUID
    partition_count: int
    partitions: Mapping[int, RecoverablePartition]

    @property
    def missing_partitions(self) -> list[int]:
        """The partitions that begin empty."""
        return [index for index in range(self.partition_count) if index not in self.partitions]


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """All topics, and descriptions of what was ignored."""

    topics: tuple[RecoverableTopic, ...]
    ignored: tuple[str, ...] = field(default=())


def group_by_topic(
    partitions: Iterable[RecoverablePartition], partition_counts: Mapping[str, int]
) -> tuple[RecoverableTopic, ...]:
    """Return the topics of partitions, ordered by name; `partition_counts` may name more partitions than the tier has.

    Raises ValueError for a count that is too small.
    """
    by_id: dict[tuple[str, uuid.UUID], dict[int, RecoverablePartition]] = {}
    for partition in partitions:
        identity = partition.topic_id_partition
        by_id.setdefault((identity.topic, identity.topic_id), {})[identity.partition] = partition
    topics = []
    for (name, topic_id), found in sorted(by_id.items()):
        seen = max(found) + 1
        count = partition_counts.get(name, seen)
        if count < seen:
            raise ValueError(f"topic {name} has at least {seen} partitions in the tier, not {count}")
        topics.append(RecoverableTopic(name, topic_id, count, found))
    return tuple(topics)
