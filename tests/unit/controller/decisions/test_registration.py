"""Registrations of brokers and controllers with the active controller."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from crabka.controller.decisions.registration import (
    BrokerApplication,
    ControllerApplication,
    RegistrationTerms,
    admit_broker,
    admit_controller,
)
from crabka.errors import OperationError
from crabka.metadata.cluster import Endpoint, VersionRange
from crabka.metadata.features import SUPPORTED_FEATURES
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import RegisterBrokerRecord, RegisterControllerRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import ELR_ON, applied, cluster, partition_of, with_partitions
from tests.support.recorded.metadata_logs import SINGLE, segments, stored_records

FEATURES = {
    "metadata.version": VersionRange(7, 30),
    "kraft.version": VersionRange(0, 1),
    "eligible.leader.replicas.version": VersionRange(0, 1),
}
NEW_INCARNATION = uuid.UUID(int=4711)


def application(broker_id: int = 1, **more: Any) -> BrokerApplication:
    given: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": "c",
        "incarnation_id": NEW_INCARNATION,
        "endpoints": [Endpoint("PLAINTEXT", "host", 9092, 0)],
        "features": FEATURES,
        "log_dirs": [uuid.UUID(int=1000 + broker_id)],
        **more,
    }
    return BrokerApplication(**given)


def terms(*, live: bool = False, next_offset: int = 100, kraft_version: int = 1) -> RegistrationTerms:
    return RegistrationTerms(
        cluster_id="c", next_offset=next_offset, has_live_session=live, kraft_version=kraft_version
    )


def refused(image: MetadataImage, wanted: BrokerApplication, given: RegistrationTerms) -> tuple[ErrorCode, str]:
    with pytest.raises(OperationError) as caught:
        admit_broker(image, wanted, given)
    return caught.value.error_code, caught.value.message


def test_a_new_broker_is_fenced_and_its_epoch_is_the_offset_of_its_record() -> None:
    outcome = admit_broker(cluster(), application(rack="r"), terms())
    (record,) = outcome.records
    assert outcome.result == 100
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.rack) == (100, True, "r")
    broker = applied(cluster(), outcome.records).cluster.brokers[1]
    assert (broker.incarnation_id, broker.features) == (NEW_INCARNATION, FEATURES)
    assert (broker.directories, broker.endpoints) == ((uuid.UUID(int=1001),), (Endpoint("PLAINTEXT", "host", 9092, 0),))


def test_another_incarnation_waits_for_the_end_of_the_session() -> None:
    code, message = refused(cluster(1), application(), terms(live=True))
    assert code is ErrorCode.duplicate_broker_registration
    assert "Another broker is registered with that broker id" in message
    assert admit_broker(cluster(1), application(), terms()).result == 100


def test_the_same_incarnation_amends_what_it_said_and_keeps_its_epoch() -> None:
    image = cluster(1)
    again = application(incarnation_id=image.cluster.brokers[1].incarnation_id, rack="new")
    outcome = admit_broker(image, again, terms(live=True))
    assert outcome.result == 1
    image = applied(image, outcome.records)
    assert (image.cluster.brokers[1].rack, image.cluster.brokers[1].fenced) == ("new", False)


def led_by_one(features: dict[str, int]) -> MetadataImage:
    image = cluster(1, 2, features=features)
    return with_partitions(image, "t", {"replicas": (1, 2)}, {"replicas": (1,)})


@pytest.mark.parametrize(
    ("previous_epoch", "elr", "lone_elr"),
    [(1, True, (1,)), (-1, True, ()), (7, True, ()), (-1, False, ())],
)
def test_only_a_clean_stop_leaves_a_broker_eligible(previous_epoch: int, elr: bool, lone_elr: tuple[int, ...]) -> None:
    image = led_by_one(ELR_ON if elr else {})
    outcome = admit_broker(image, application(previous_broker_epoch=previous_epoch), terms())
    image = applied(image, outcome.records)
    shared, lone = partition_of(image, "t", 0), partition_of(image, "t", 1)
    assert (shared.leader, shared.isr, shared.elr) == (2, (2,), ())
    assert (lone.leader, lone.isr, lone.elr) == (-1, () if elr else (1,), lone_elr)
    assert image.cluster.brokers[1].fenced


def test_a_broker_that_was_forgotten_is_never_clean() -> None:
    image = with_partitions(
        cluster(2, features=ELR_ON), "t", {"replicas": (1, 2), "isr": (2,), "eligible_leader_replicas": (1,)}
    )
    image = applied(image, admit_broker(image, application(previous_broker_epoch=-1), terms()).records)
    assert partition_of(image).elr == ()


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (
            application(cluster_id="other"),
            ErrorCode.inconsistent_cluster_id,
            "Expected cluster ID c, but got cluster ID other",
        ),
        (
            application(is_migrating_zk_broker=True),
            ErrorCode.broker_id_not_registered,
            "Controller does not support registering ZK brokers.",
        ),
        (application(log_dirs=[]), ErrorCode.invalid_registration, "No directories specified in request"),
        (
            application(log_dirs=[uuid.UUID(int=99)]),
            ErrorCode.invalid_registration,
            "Reserved directory ID in request",
        ),
        (
            application(log_dirs=[uuid.UUID(int=100), uuid.UUID(int=100)]),
            ErrorCode.invalid_registration,
            "Duplicate directory ID in request",
        ),
        (
            application(log_dirs=[uuid.UUID(int=1002)]),
            ErrorCode.invalid_registration,
            f"Broker 2 is already registered with directory {uuid.UUID(int=1002)}",
        ),
        (
            application(features={"kraft.version": VersionRange(0, 1)}),
            ErrorCode.invalid_registration,
            "Request features do not contain 'metadata.version'",
        ),
        (
            application(features={**FEATURES, "metadata.version": VersionRange(7, 29)}),
            ErrorCode.unsupported_version,
            (
                "Unable to register because the broker does not support finalized version 30 of metadata.version. "
                "The broker wants a version between 7 and 29, inclusive."
            ),
        ),
        (
            application(features={"metadata.version": VersionRange(7, 30)}),
            ErrorCode.unsupported_version,
            (
                "Unable to register because the broker does not support finalized version 1 of kraft.version. "
                "The broker wants a version between 0 and 0, inclusive."
            ),
        ),
        (
            application(features={**FEATURES, "new.version": VersionRange(1, 2)}),
            ErrorCode.unsupported_version,
            (
                "Unable to register because the broker does not support finalized version 0 of new.version. "
                "The broker wants a version between 1 and 2, inclusive."
            ),
        ),
        (application(-5), ErrorCode.invalid_registration, "-5 is no broker id"),
        (
            application(features={**FEATURES, "new.version": VersionRange(32767, -32768)}),
            ErrorCode.invalid_registration,
            "new.version has the range 32767 to -32768",
        ),
    ],
)
def test_refused_registrations(wanted: BrokerApplication, code: ErrorCode, message: str) -> None:
    assert refused(cluster(2), wanted, terms()) == (code, message)


def test_before_3_7_directories_are_neither_checked_nor_kept() -> None:
    image = cluster(features={"metadata.version": 16})
    (record,) = admit_broker(image, application(log_dirs=[]), terms()).records
    assert record.log_dirs == ()


def test_a_controller_registers() -> None:
    said = ControllerApplication(
        controller_id=3,
        incarnation_id=NEW_INCARNATION,
        endpoints=[Endpoint("CONTROLLER", "host", 9093, 0)],
        features=FEATURES,
    )
    (record,) = admit_controller(cluster(), said).records
    assert isinstance(record, RegisterControllerRecord)
    controller = applied(cluster(), [record]).cluster.controllers[3]
    assert (controller.incarnation_id, controller.features) == (NEW_INCARNATION, FEATURES)
    with pytest.raises(OperationError, match="too old to support controller registrations") as caught:
        admit_controller(cluster(features={"metadata.version": 14}), said)
    assert caught.value.error_code is ErrorCode.unsupported_version


def test_a_controller_with_an_impossible_id_or_range_is_refused() -> None:
    said = ControllerApplication(controller_id=-3, incarnation_id=NEW_INCARNATION, endpoints=[], features={})
    with pytest.raises(OperationError, match="-3 is no controller id"):
        admit_controller(cluster(), said)
    with pytest.raises(OperationError, match="has the range 2 to 1"):
        admit_controller(cluster(), replace(said, controller_id=3, features={"x": VersionRange(2, 1)}))


def golden(kind: type) -> Any:
    return next(
        record.message
        for path in segments(SINGLE)
        for record in stored_records(path)
        if isinstance(record.message, kind)
    )


def with_sorted_features(record: Any) -> Any:
    # Kafka lists them in no order.
    return replace(record, features=tuple(sorted(record.features, key=lambda feature: feature.name)))


def test_a_broker_registers_as_kafkas_does() -> None:
    recorded = golden(RegisterBrokerRecord)
    said = BrokerApplication(
        broker_id=recorded.broker_id,
        cluster_id="cluster",
        incarnation_id=recorded.incarnation_id,
        endpoints=[Endpoint(each.name, each.host, each.port, each.security_protocol) for each in recorded.end_points],
        features=SUPPORTED_FEATURES,
        log_dirs=recorded.log_dirs,
    )
    at_start = RegistrationTerms(cluster_id="cluster", next_offset=recorded.broker_epoch, has_live_session=False)
    outcome = admit_broker(cluster(), said, at_start)
    assert outcome.result == recorded.broker_epoch
    (record,) = outcome.records
    assert with_sorted_features(record) == with_sorted_features(recorded)


def test_a_controller_registers_as_kafkas_does() -> None:
    recorded = golden(RegisterControllerRecord)
    said = ControllerApplication(
        controller_id=recorded.controller_id,
        incarnation_id=recorded.incarnation_id,
        endpoints=[Endpoint(each.name, each.host, each.port, each.security_protocol) for each in recorded.end_points],
        features=SUPPORTED_FEATURES,
    )
    (record,) = admit_controller(cluster(), said).records
    assert with_sorted_features(record) == with_sorted_features(recorded)
