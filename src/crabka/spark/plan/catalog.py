"""The segments of a tier that can be read, by partition, wherever they are known from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crabka.errors import ConfigError
from crabka.ids import uuid_to_text
from crabka.remote.scrub.faults import TierFaultKind
from crabka.remote.segments import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition

Segments = Sequence[RemoteLogSegmentMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableSegment:
    """A segment that does not count: why, which of its objects is to blame, and when the youngest of them came."""

    segment_id: RemoteLogSegmentId
    base_offset: int
    kind: TierFaultKind
    reason: str
    object_name: str
    newest_ms: int

    def __str__(self) -> str:
        return f"segment {self.base_offset:020d} of {self.segment_id.topic_id_partition}: {self.reason}"


@dataclass(frozen=True, slots=True)
class TierCatalog:
    """Finished segments, and what of the tier does not count."""

    segments: Mapping[TopicIdPartition, Segments] = field(default_factory=dict)
    unusable: tuple[UnusableSegment, ...] = ()

    @property
    def ignored(self) -> tuple[str, ...]:
        """What does not count, in words."""
        return tuple(map(str, self.unusable))

    def of(self, topic_id: uuid.UUID, topic: str, partition: int) -> Segments:
        """Return the segments of a partition."""
        return self.segments.get(TopicIdPartition(topic_id, topic, partition), ())

    def topic_ids(self, topic_id: uuid.UUID | None = None) -> dict[str, uuid.UUID]:
        """Return the ids of the topics that the tier has; with an id, only that one is looked at.

        Raises ConfigError if a name belongs to several topics.
        """
        found: dict[str, uuid.UUID] = {}
        for partition in self.segments:
            if topic_id is not None and partition.topic_id != topic_id:
                continue
            known = found.setdefault(partition.topic, partition.topic_id)
            if known != partition.topic_id:
                both = sorted(uuid_to_text(each) for each in (known, partition.topic_id))
                raise ConfigError(
                    f"the tier has two topics {partition.topic}, {both[0]} and {both[1]}; choose one by tier.topicId"
                )
        return found

    def partitions(self, topic: str, topic_id: uuid.UUID) -> list[int]:
        """Return the partitions of a topic of which the tier has something."""
        return sorted(each.partition for each in self.segments if each.topic == topic and each.topic_id == topic_id)
