"""A broker's life in the metadata: registration, fencing and taking its partitions back.

A registration starts fenced: partitions that the broker led lose their leader, then unfencing elects it again.
So each restart of a single node raises leader epochs by two, as Kafka does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crabka.controller.features import SUPPORTED_FEATURES
from crabka.controller.outcome import Outcome
from crabka.ids import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from crabka.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from crabka.protocol.generated.metadata.broker_registration_change_record import (
    BrokerRegistrationChangeRecordV0,
    BrokerRegistrationChangeRecordV2,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator, Sequence

    from crabka.ids import DirectoryId, TopicId
    from crabka.metadata.cluster import BrokerRegistration, Endpoint
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage, TopicImage

NO_LEADER = -1
UNFENCED = -1


@dataclass(frozen=True, slots=True)
class Registration:
    """What a starting node says of itself."""

    node_id: int
    incarnation_id: uuid.UUID
    endpoints: Sequence[Endpoint]
    log_dirs: Sequence[DirectoryId]
    rack: str | None = None


def register_controller(_image: MetadataImage, registration: Registration) -> Outcome[None]:
    """Record this node as a controller (KIP-919)."""
    record = RegisterControllerRecord(
        controller_id=registration.node_id,
        incarnation_id=registration.incarnation_id,
        zk_migration_ready=False,
        end_points=tuple(
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in registration.endpoints
        ),
        features=tuple(
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ),
    )
    return Outcome(None, [record])


def register_broker(image: MetadataImage, registration: Registration, *, broker_epoch: int) -> Outcome[int]:
    """Record this node as a fenced broker; its epoch must be the offset that the first record will get."""
    register = RegisterBrokerRecord(
        broker_id=registration.node_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=tuple(
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in registration.endpoints
        ),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ),
        rack=registration.rack,
        fenced=True,
        log_dirs=tuple(sorted(registration.log_dirs)),
    )
    return Outcome(broker_epoch, [register, *_leader_losses(image, registration.node_id)])


def unfence_broker(image: MetadataImage, node_id: int) -> Outcome[None]:
    """Let a registered broker serve: it leads again what has no leader, is in sync and lies in a dir that works."""
    broker = image.cluster.brokers[node_id]
    unfence = BrokerRegistrationChangeRecordV0(broker_id=node_id, broker_epoch=broker.epoch, fenced=UNFENCED)
    elections = [
        _election(topic.topic_id, index, partition, node_id)
        for topic, index, partition in _partitions(image)
        if partition.leader == NO_LEADER
        and node_id in partition.replicas
        and _may_lead(partition, node_id)
        and has_online_replica(broker, partition)
    ]
    return Outcome(None, [unfence, *elections])


def keep_directories(image: MetadataImage, node_id: int, online: Sequence[DirectoryId]) -> Outcome[None]:
    """Record that only these log dirs of a broker work: what it leads in the others has no leader any more."""
    broker = image.cluster.brokers[node_id]
    remaining = tuple(directory for directory in broker.directories if directory in online)
    if len(remaining) == len(broker.directories) or not remaining:
        return Outcome(None)
    reduced = replace(broker, directories=remaining)
    losses = [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=NO_LEADER)
        for topic, index, partition in _partitions(image)
        if partition.leader == node_id and not has_online_replica(reduced, partition)
    ]
    change = BrokerRegistrationChangeRecordV2(broker_id=node_id, broker_epoch=broker.epoch, log_dirs=remaining)
    return Outcome(None, [*losses, change])


def has_online_replica(broker: BrokerRegistration, partition: PartitionImage) -> bool:
    """Return whether a broker's replica lies in a log dir that works, as far as the metadata knows."""
    return is_online_directory(broker, partition.directory_of(broker.broker_id))


def is_online_directory(broker: BrokerRegistration, directory: DirectoryId) -> bool:
    """Return whether a broker can reach this log dir, as far as the metadata knows."""
    if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
        return True
    # A broker that registered no directories at all is older than JBOD (KIP-858).
    return directory != DIRECTORY_LOST and (not broker.directories or directory in broker.directories)


def _may_lead(partition: PartitionImage, node_id: int) -> bool:
    """Tell whether a replica has everything that was acknowledged, or is the last that had (KIP-966)."""
    if partition.isr or partition.elr:
        return node_id in partition.isr or node_id in partition.elr
    return node_id in (partition.last_known_elr or partition.replicas)


def _election(topic_id: TopicId, index: int, partition: PartitionImage, node_id: int) -> PartitionChangeRecord:
    in_sync = node_id in partition.isr
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        leader=node_id,
        isr=None if in_sync else (node_id,),
        # A leader is in sync, so it is no longer merely eligible; an empty list is written only where it changes.
        eligible_leader_replicas=() if partition.elr else None,
        last_known_elr=() if partition.last_known_elr else None,
    )


def _leader_losses(image: MetadataImage, node_id: int) -> list[Any]:
    return [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=NO_LEADER)
        for topic, index, partition in _partitions(image)
        if partition.leader == node_id
    ]


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            yield topic, index, partition
