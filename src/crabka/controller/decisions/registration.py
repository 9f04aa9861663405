"""Registration of brokers and controllers with the active controller (KIP-631, KIP-858, KIP-919, KIP-966).

The epoch of a broker is the offset of its registration record, which is therefore the first of its batch. The changes
of partitions that follow from a new incarnation are in the same batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabka.controller.decisions.broker_changes import cleanup_records
from crabka.controller.decisions.control_view import DEFAULT_RULES, ControllerRules, ControlView
from crabka.errors import OperationError
from crabka.metadata.features import CONTROLLER_REGISTRATION_LEVEL, KRAFT_VERSION, METADATA_VERSION
from crabka.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from crabka.metadata.requests import Outcome
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping, Sequence

    from crabka.ids import DirectoryId
    from crabka.metadata.cluster import BrokerRegistration, Endpoint, VersionRange
    from crabka.metadata.image import MetadataImage

NO_EPOCH = -1
# Kafka keeps the first hundred ids for states like "unassigned" (its DirectoryId class).
_RESERVED_DIRECTORIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerApplication:
    """The content of a BrokerRegistration request."""

    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    endpoints: Sequence[Endpoint]
    features: Mapping[str, VersionRange]
    log_dirs: Sequence[DirectoryId] = ()
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    # The epoch of the incarnation before, if that one stopped cleanly; always NO_EPOCH before version 3 of the request.
    previous_broker_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerApplication:
    """The content of a ControllerRegistration request."""

    controller_id: int
    incarnation_id: uuid.UUID
    endpoints: Sequence[Endpoint]
    features: Mapping[str, VersionRange]
    zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationTerms:
    """What the active controller knows in addition to the image."""

    cluster_id: str
    # The offset that the next record of the log will get.
    next_offset: int
    # Whether the registered incarnation of this broker has a live session.
    has_live_session: bool
    kraft_version: int = 0
    rules: ControllerRules = DEFAULT_RULES


def admit_broker(image: MetadataImage, application: BrokerApplication, terms: RegistrationTerms) -> Outcome[int]:
    """Register a broker, fenced; return its epoch. The same incarnation may register again and keeps its epoch.

    Raises OperationError with Kafka's code: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION,
    BROKER_ID_NOT_REGISTERED (ZooKeeper), INVALID_REGISTRATION or UNSUPPORTED_VERSION.
    """
    view = ControlView(image, terms.rules)
    existing = image.cluster.brokers.get(application.broker_id)
    _check_identity(application, existing, terms)
    if view.directories_supported:
        _check_directories(image, application)
    _check_features(image, application, terms)
    log_dirs = application.log_dirs if view.directories_supported else ()
    if existing is not None and existing.incarnation_id == application.incarnation_id:
        return Outcome(existing.epoch, [_amended(application, existing, log_dirs)])
    stored_epoch = None if existing is None else existing.epoch
    record = _broker_record(application, terms.next_offset, log_dirs)
    cleanup = cleanup_records(view, application.broker_id, clean=application.previous_broker_epoch == stored_epoch)
    return Outcome(terms.next_offset, [record, *cleanup])


def admit_controller(image: MetadataImage, application: ControllerApplication) -> Outcome[None]:
    """Register a controller. Raises OperationError (UNSUPPORTED_VERSION) where older nodes could not read it."""
    if image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        raise OperationError(
            ErrorCode.unsupported_version,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    if application.controller_id < 0:
        raise OperationError(ErrorCode.invalid_request, f"{application.controller_id} is no controller id")
    _check_ranges(application.features)
    record = RegisterControllerRecord(
        controller_id=application.controller_id,
        incarnation_id=application.incarnation_id,
        zk_migration_ready=False,
        end_points=tuple(
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in application.endpoints
        ),
        features=tuple(
            ControllerFeature(
                name=name, min_supported_version=levels.min_version, max_supported_version=levels.max_version
            )
            for name, levels in application.features.items()
        ),
    )
    return Outcome(None, [record])


def _check_identity(
    application: BrokerApplication, existing: BrokerRegistration | None, terms: RegistrationTerms
) -> None:
    if application.cluster_id != terms.cluster_id:
        raise OperationError(
            ErrorCode.inconsistent_cluster_id,
            f"Expected cluster ID {terms.cluster_id}, but got cluster ID {application.cluster_id}",
        )
    if existing is not None and terms.has_live_session and existing.incarnation_id != application.incarnation_id:
        raise OperationError(
            ErrorCode.duplicate_broker_registration,
            "Another broker is registered with that broker id. A broker that was restarted just now can register "
            "when the session of its last run is over.",
        )
    if application.broker_id < 0:
        raise _invalid(f"{application.broker_id} is no broker id")
    if application.is_migrating_zk_broker:
        raise OperationError(ErrorCode.broker_id_not_registered, "Controller does not support registering ZK brokers.")


def _check_directories(image: MetadataImage, application: BrokerApplication) -> None:
    log_dirs = application.log_dirs
    if not log_dirs:
        raise _invalid("No directories specified in request")
    if any(directory.int < _RESERVED_DIRECTORIES for directory in log_dirs):
        raise _invalid("Reserved directory ID in request")
    if len(set(log_dirs)) != len(log_dirs):
        raise _invalid("Duplicate directory ID in request")
    for other in image.cluster.brokers.values():
        if other.broker_id == application.broker_id:
            continue
        for directory in log_dirs:
            if directory in other.directories:
                raise _invalid(f"Broker {other.broker_id} is already registered with directory {directory}")


def _check_features(image: MetadataImage, application: BrokerApplication, terms: RegistrationTerms) -> None:
    finalized = {
        **image.features.levels,
        METADATA_VERSION: image.features.metadata_version,
        KRAFT_VERSION: terms.kraft_version,
    }
    _check_ranges(application.features)
    for name, levels in application.features.items():
        _check_feature(name, finalized.get(name, 0), levels.min_version, levels.max_version)
    if METADATA_VERSION not in application.features:
        raise _invalid("Request features do not contain 'metadata.version'")
    for name, level in finalized.items():
        if level != 0 and name not in application.features:
            _check_feature(name, level, 0, 0)


def _check_ranges(features: Mapping[str, VersionRange]) -> None:
    """Refuse invalid ranges: they would stay in the metadata."""
    for name, levels in features.items():
        if not 0 <= levels.min_version <= levels.max_version:
            raise _invalid(f"{name} has the range {levels.min_version} to {levels.max_version}")


def _check_feature(name: str, finalized: int, low: int, high: int) -> None:
    if not low <= finalized <= high:
        raise OperationError(
            ErrorCode.unsupported_version,
            f"Unable to register because the broker does not support finalized version {finalized} of {name}. "
            f"The broker wants a version between {low} and {high}, inclusive.",
        )


def _invalid(message: str) -> OperationError:
    return OperationError(ErrorCode.invalid_registration, message)


def _broker_record(application: BrokerApplication, epoch: int, log_dirs: Sequence[DirectoryId]) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=application.broker_id,
        incarnation_id=application.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in application.endpoints
        ),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=levels.min_version, max_supported_version=levels.max_version)
            for name, levels in application.features.items()
        ),
        rack=application.rack,
        fenced=True,
        log_dirs=tuple(log_dirs),
    )


def _amended(
    application: BrokerApplication, existing: BrokerRegistration, log_dirs: Sequence[DirectoryId]
) -> RegisterBrokerRecord:
    """Register the same incarnation again: an answer was lost, or its endpoints changed."""
    return replace(
        _broker_record(application, existing.epoch, log_dirs),
        fenced=existing.fenced,
        in_controlled_shutdown=existing.in_controlled_shutdown,
    )
