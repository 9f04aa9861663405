"""The segments of a tier that can be read, by partition, whatever told of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crabka.errors import ConfigError
from crabka.ids import uuid_to_text
from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition

Segments = Sequence[RemoteLogSegmentMetadata]


@dataclass(frozen=True, slots=True)
class TierCatalog:
    """Finished segments, and in words what of the tier does not count."""

    segments: Mapping[TopicIdPartition, Segments] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

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
