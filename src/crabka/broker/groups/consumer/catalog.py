"""The topics of the cluster for consumer groups: a small view of the metadata image that counts its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.groups.consumer.metadata_hash import group_hash, topic_hash

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Mapping

    from crabka.metadata.image import MetadataImage


class CatalogTopic(NamedTuple):
    """A topic as assignors see it."""

    name: str
    topic_id: uuid.UUID
    partition_count: int
    hashed: int


class TopicCatalog:
    """Topics by name and id. Owned by the coordinator, read by every group; changes as a whole."""

    __slots__ = ("_racks", "by_id", "by_name", "version")

    def __init__(self) -> None:
        self.by_name: dict[str, CatalogTopic] = {}
        self.by_id: dict[uuid.UUID, CatalogTopic] = {}
        # Rises with every change of a topic: groups then check their topics again.
        self.version = 0
        self._racks: Mapping[int, str | None] = {}

    def put(self, name: str, topic_id: uuid.UUID, racks: list[list[str]]) -> None:
        """Add or change a topic; `racks` has one entry per partition."""
        before = self.by_name.get(name)
        if before is not None:
            self.by_id.pop(before.topic_id, None)
        topic = CatalogTopic(name, topic_id, len(racks), topic_hash(name, topic_id, racks))
        self.by_name[name] = self.by_id[topic_id] = topic
        self.version += topic != before

    def remove(self, topic_id: uuid.UUID) -> None:
        """Remove a topic, if it is known."""
        topic = self.by_id.pop(topic_id, None)
        if topic is not None:
            if self.by_name.get(topic.name) is topic:
                del self.by_name[topic.name]
            self.version += 1

    def follow(self, image: MetadataImage, changed: Iterable[uuid.UUID] | None = None) -> None:
        """Update the changed topics from an image; all topics without `changed` or when racks changed."""
        racks = {broker_id: broker.rack for broker_id, broker in image.cluster.brokers.items()}
        if changed is None or racks != self._racks:
            self._racks = racks
            changed = set(self.by_id) | set(image.topics.by_id)
        for topic_id in changed:
            topic = image.topics.by_id.get(topic_id)
            if topic is None:
                self.remove(topic_id)
                continue
            of_partitions = [topic.partitions[index].replicas for index in sorted(topic.partitions)]
            self.put(
                topic.name,
                topic_id,
                [[rack for each in replicas if (rack := racks.get(each))] for replicas in of_partitions],
            )

    def hash_of(self, names: Iterable[str]) -> int:
        """Return the hash of the topics of these names that exist."""
        found = (self.by_name.get(name) for name in names)
        return group_hash((topic.name, topic.hashed) for topic in found if topic is not None)
