"""A broker's life in the metadata: registration, fencing and taking its partitions back.

A registration starts fenced: partitions that the broker led lose their leader, then unfencing elects it again.
So each restart of a single node raises leader epochs by two, as Kafka does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.controller.features import KRAFT_VERSION, SUPPORTED_FEATURES
from crabka.controller.outcome import Outcome
from crabka.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from crabka.protocol.generated.metadata.broker_registration_change_record import BrokerRegistrationChangeRecordV0

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator, Sequence

    from crabka.ids import DirectoryId
    from crabka.metadata.cluster import Endpoint
    from crabka.metadata.image import MetadataImage

NO_LEADER = -1
UNFENCED = -1
# Kafka's controllers and brokers leave kraft.version out of the features that they register.
_REGISTERED_FEATURES = {name: levels for name, levels in SUPPORTED_FEATURES.items() if name != KRAFT_VERSION}


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
            for name, (low, high) in _REGISTERED_FEATURES.items()
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
            for name, (low, high) in _REGISTERED_FEATURES.items()
        ),
        rack=registration.rack,
        fenced=True,
        log_dirs=tuple(sorted(registration.log_dirs)),
    )
    return Outcome(broker_epoch, [register, *_leader_losses(image, registration.node_id)])


def unfence_broker(image: MetadataImage, node_id: int) -> Outcome[None]:
    """Let a registered broker serve: it leads again what has no leader and has it in sync."""
    broker = image.cluster.brokers[node_id]
    unfence = BrokerRegistrationChangeRecordV0(broker_id=node_id, broker_epoch=broker.epoch, fenced=UNFENCED)
    elections = [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=node_id)
        for topic, index, partition in _partitions(image)
        if partition.leader == NO_LEADER and node_id in partition.isr
    ]
    return Outcome(None, [unfence, *elections])


def _leader_losses(image: MetadataImage, node_id: int) -> list[Any]:
    return [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=NO_LEADER)
        for topic, index, partition in _partitions(image)
        if partition.leader == node_id
    ]


def _partitions(image: MetadataImage) -> Iterator[tuple[Any, int, Any]]:
    for topic in image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            yield topic, index, partition
