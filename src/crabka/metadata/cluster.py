"""Registered brokers and controllers: their part of the image and how records change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from crabka.errors import CorruptDataError
from crabka.ids import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from crabka.metadata.draft import MappingDraft
from crabka.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

if TYPE_CHECKING:
    from crabka.ids import DirectoryId
    from crabka.metadata.topics import PartitionImage


class Endpoint(NamedTuple):
    """A named listener of a node; the security protocol is Kafka's id (0 = PLAINTEXT)."""

    name: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    """The levels of a feature that a node supports."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker as the controller knows it; its epoch is the offset of its registration record."""

    broker_id: int
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, VersionRange]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    directories: tuple[UUID, ...] = ()
    cordoned_directories: tuple[UUID, ...] = ()

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Return the endpoint of a listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener_name), None)

    def has_online_directory(self, directory: DirectoryId) -> bool:
        """Return whether the broker can reach this log dir, as far as the metadata knows."""
        if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
            return True
        # A broker that registered no directories at all is older than JBOD (KIP-858).
        return directory != DIRECTORY_LOST and (not self.directories or directory in self.directories)

    def has_online_replica(self, partition: PartitionImage) -> bool:
        """Return whether the broker's replica lies in a log dir that works, as far as the metadata knows."""
        return self.has_online_directory(partition.directory_of(self.broker_id))


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A controller node with its endpoints and features."""

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, VersionRange]


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """All registered nodes by id."""

    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=dict)

    def to_records(self) -> Iterator[Any]:
        """Yield the records that rebuild this part."""
        for broker in self.brokers.values():
            yield _broker_record(broker)
        for controller in self.controllers.values():
            yield _controller_record(controller)


class ClusterDelta:
    """Changes of registrations on top of an image."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._brokers = MappingDraft(image.brokers)
        self._controllers = MappingDraft(image.controllers)
        self.changed_brokers: set[int] = set()

    def register_broker(self, record: Any) -> None:
        """Replay RegisterBrokerRecord."""
        registration = BrokerRegistration(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=endpoints_of(record.end_points),
            features=features_of(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            directories=tuple(record.log_dirs),
            cordoned_directories=tuple(record.cordoned_log_dirs or ()),
        )
        self._put(registration)

    def unregister_broker(self, record: Any) -> None:
        """Replay UnregisterBrokerRecord."""
        self._brokers.remove(record.broker_id)
        self.changed_brokers.add(record.broker_id)

    def fence_broker(self, record: Any) -> None:
        """Replay FenceBrokerRecord."""
        self._put(replace(self._registered(record.id, record.epoch), fenced=True))

    def unfence_broker(self, record: Any) -> None:
        """Replay UnfenceBrokerRecord."""
        self._put(replace(self._registered(record.id, record.epoch), fenced=False))

    def change_broker(self, record: Any) -> None:
        """Replay BrokerRegistrationChangeRecord."""
        current = self._registered(record.broker_id, record.broker_epoch)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise CorruptDataError("metadata", f"registration change of broker {record.broker_id} has unknown values")
        changed = replace(
            current,
            fenced=current.fenced if record.fenced == 0 else record.fenced == 1,
            in_controlled_shutdown=current.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            directories=tuple(record.log_dirs) or current.directories,
            cordoned_directories=current.cordoned_directories
            if record.cordoned_log_dirs is None
            else tuple(record.cordoned_log_dirs),
        )
        if changed != current:
            self._put(changed)

    def register_controller(self, record: Any) -> None:
        """Replay RegisterControllerRecord."""
        registration = ControllerRegistration(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=endpoints_of(record.end_points),
            features=features_of(record.features),
        )
        self._controllers.set(record.controller_id, registration)

    def apply(self) -> ClusterImage:
        """Return the image with the changes."""
        brokers, controllers = self._brokers.current, self._controllers.current
        if brokers is self._image.brokers and controllers is self._image.controllers:
            return self._image
        return ClusterImage(brokers, controllers)

    def _put(self, registration: BrokerRegistration) -> None:
        self._brokers.set(registration.broker_id, registration)
        self.changed_brokers.add(registration.broker_id)

    def _registered(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise CorruptDataError("metadata", f"change of broker {broker_id}, which is not registered")
        if broker.epoch != epoch:
            raise CorruptDataError("metadata", f"change of broker {broker_id} epoch {epoch}, current is {broker.epoch}")
        return broker


def endpoints_of(rows: Iterable[Any]) -> tuple[Endpoint, ...]:
    """Return the endpoints in rows of a record or of a registration request."""
    return tuple(Endpoint(item.name, item.host, item.port, item.security_protocol) for item in rows)


def features_of(rows: Iterable[Any]) -> dict[str, VersionRange]:
    """Return the supported levels in rows of a record or of a registration request, by feature."""
    return {item.name: VersionRange(item.min_supported_version, item.max_supported_version) for item in rows}


def _broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            BrokerEndpoint(name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol)
            for item in broker.endpoints
        ),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=item.min_version, max_supported_version=item.max_version)
            for name, item in broker.features.items()
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
        cordoned_log_dirs=broker.cordoned_directories,
    )


def _controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=tuple(
            ControllerEndpoint(name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol)
            for item in controller.endpoints
        ),
        features=tuple(
            ControllerFeature(name=name, min_supported_version=item.min_version, max_supported_version=item.max_version)
            for name, item in controller.features.items()
        ),
    )
