"""Small metadata images for tests of decisions, and ways to carry decisions out."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from crabka.controller.decisions.broker_changes import unfencing_records
from crabka.controller.decisions.control_view import ControlView
from crabka.controller.decisions.registration import BrokerApplication, RegistrationTerms, admit_broker
from crabka.controller.decisions.topics import TopicDefaults, create_topics
from crabka.metadata.cluster import Endpoint
from crabka.metadata.delta import MetadataDelta
from crabka.metadata.features import SUPPORTED_FEATURES
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import ConfigRecord, FeatureLevelRecord, PartitionRecord, TopicRecord
from crabka.metadata.requests import Outcome, WantedTopic
from crabka.metadata.topics import PartitionImage, TopicsImage


def applied(image: MetadataImage, records: Iterable[Any]) -> MetadataImage:
    """Return the image with records applied."""
    delta = MetadataDelta(image)
    count = 0
    for record in records:
        delta.replay(record)
        count += 1
    return delta.apply(image.offset + count, max(1, image.epoch))


def registration(node_id: int, log_dirs: Sequence[uuid.UUID] = (), rack: str | None = None) -> BrokerApplication:
    """Return what a broker says of itself; by default it has one log dir."""
    return BrokerApplication(
        broker_id=node_id,
        cluster_id="cluster",
        incarnation_id=uuid.UUID(int=node_id),
        endpoints=[Endpoint("PLAINTEXT", f"host-{node_id}", 9092, 0)],
        features=SUPPORTED_FEATURES,
        log_dirs=log_dirs or (uuid.UUID(int=1000 + node_id),),
        rack=rack,
    )


def register_broker(image: MetadataImage, application: BrokerApplication, *, broker_epoch: int) -> Outcome[int]:
    """Register a broker whose session has expired; its incarnation is always a new one."""
    said = replace(application, incarnation_id=uuid.UUID(int=(broker_epoch << 64) + application.broker_id))
    terms = RegistrationTerms(cluster_id="cluster", next_offset=broker_epoch, has_live_session=False)
    return admit_broker(image, said, terms)


def unfence_broker(image: MetadataImage, broker_id: int) -> Outcome[None]:
    """Let a registered broker serve."""
    return Outcome(None, unfencing_records(ControlView(image), broker_id))


def cluster(*node_ids: int, fenced: Sequence[int] = (), features: dict[str, int] | None = None) -> MetadataImage:
    """Return an image with brokers at Kafka 4.3's feature levels."""
    levels = {"metadata.version": 30, **(features or {})}
    image = applied(MetadataImage(), [FeatureLevelRecord(name=k, feature_level=v) for k, v in levels.items()])
    for node_id in node_ids:
        image = applied(image, register_broker(image, registration(node_id), broker_epoch=node_id).records)
        if node_id not in fenced:
            image = applied(image, unfence_broker(image, node_id).records)
    return image


def defaults(partition_count: int = 1, replication_factor: int = 1, seed: int | str = 1) -> TopicDefaults:
    """Return topic defaults with a generator of their own."""
    rng = random.Random(seed)
    return TopicDefaults(
        partition_count=partition_count,
        replication_factor=replication_factor,
        rng=rng,
        new_topic_id=lambda: uuid.UUID(int=rng.getrandbits(128), version=4),
    )


def with_topic(image: MetadataImage, name: str, partition_count: int = 1, replication_factor: int = 1) -> MetadataImage:
    """Return the image with one more topic."""
    outcome = create_topics(image, [WantedTopic(name, partition_count, replication_factor)], defaults(seed=name))
    return applied(image, outcome.records)


ELR_ON = {"eligible.leader.replicas.version": 1}


def with_partitions(image: MetadataImage, name: str, *partitions: dict[str, Any], **configs: str) -> MetadataImage:
    """Return the image with a topic of exactly these partitions; what a partition leaves open follows its replicas.

    Settings are given with '_' for '.'.
    """
    topic_id = topic_id_of(name)
    records: list[Any] = [TopicRecord(name=name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=2, resource_name=name, name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    for index, given in enumerate(partitions):
        replicas = given["replicas"]
        values = {
            "isr": replicas,
            "leader": given.get("isr", replicas)[0] if given.get("isr", replicas) else -1,
            "leader_epoch": 5,
            "partition_epoch": 10,
            "directories": tuple(uuid.UUID(int=1000 + node_id) for node_id in replicas),
            **given,
        }
        records.append(PartitionRecord(partition_id=index, topic_id=topic_id, **values))
    return applied(image, records)


def with_partition(image: MetadataImage, name: str, index: int, partition: PartitionImage) -> MetadataImage:
    """Return the image with one partition of a topic put in or changed; all else stays the same object."""
    topics = image.topics
    topic = topics.by_name[name]
    changed = replace(topic, partitions={**topic.partitions, index: partition})
    by_id, by_name = {**topics.by_id, topic.topic_id: changed}, {**topics.by_name, name: changed}
    return replace(image, offset=image.offset + 1, topics=TopicsImage(by_id, by_name))


def topic_id_of(name: str) -> uuid.UUID:
    """Return the id that `with_partitions` gives to a topic."""
    return uuid.UUID(bytes=name.encode().rjust(16, b"\x01")[:16])


def partition_of(image: MetadataImage, name: str = "t", index: int = 0) -> PartitionImage:
    """Return a partition that must exist."""
    partition = image.topics.partition(name, index)
    assert partition is not None
    return partition
