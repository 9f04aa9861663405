from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from crabka.errors import CorruptDataError
from crabka.ids import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DirectoryId
from crabka.metadata.cluster import ClusterDelta, ClusterImage, Endpoint, VersionRange, endpoints_of, features_of
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from crabka.protocol.apis import ApiKey, request_types
from tests.support.quorum.images import applied, cluster, register_broker, registration, unfence_broker, with_topic

DIRECTORIES = (UUID(int=200), UUID(int=201))


def _registration(epoch: int = 7) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=UUID(int=5),
        broker_epoch=epoch,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
        features=(BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),),
        rack="r1",
        log_dirs=DIRECTORIES,
        cordoned_log_dirs=(),
    )


def _registered() -> ClusterImage:
    delta = ClusterDelta(ClusterImage())
    delta.register_broker(_registration())
    return delta.apply()


def test_a_registration_is_kept_and_given_back_as_a_record() -> None:
    image = _registered()
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack, broker.directories) == (7, True, "r1", DIRECTORIES)
    assert broker.features["metadata.version"] == (7, 30)
    endpoint = broker.endpoint("PLAINTEXT")
    assert endpoint is not None
    assert endpoint.port == 9092
    assert broker.endpoint("SSL") is None
    assert list(image.to_records()) == [_registration()]


def test_fencing_and_unfencing() -> None:
    delta = ClusterDelta(_registered())
    delta.unfence_broker(UnfenceBrokerRecord(id=1, epoch=7))
    assert not delta.apply().brokers[1].fenced
    delta.fence_broker(FenceBrokerRecord(id=1, epoch=7))
    assert delta.apply().brokers[1].fenced
    assert delta.changed_brokers == {1}


def test_a_change_record_changes_only_what_it_names() -> None:
    delta = ClusterDelta(_registered())
    delta.change_broker(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1))
    delta.change_broker(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1))
    broker = delta.apply().brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.directories) == (False, True, DIRECTORIES)
    delta.change_broker(
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=7, log_dirs=DIRECTORIES[:1], cordoned_log_dirs=DIRECTORIES[:1]
        )
    )
    broker = delta.apply().brokers[1]
    assert (broker.directories, broker.cordoned_directories) == (DIRECTORIES[:1], DIRECTORIES[:1])
    assert broker.in_controlled_shutdown


def test_a_change_that_changes_nothing_leaves_the_image() -> None:
    image = _registered()
    delta = ClusterDelta(image)
    delta.change_broker(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7))
    assert delta.apply() is image
    assert delta.changed_brokers == set()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=7), "not registered"),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=6), "current is 7"),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=4), "unknown values"),
    ],
)
def test_a_change_must_fit_the_registration(record: Any, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        ClusterDelta(_registered()).change_broker(record)


def test_an_unregistered_broker_is_gone() -> None:
    delta = ClusterDelta(_registered())
    delta.unregister_broker(UnregisterBrokerRecord(broker_id=1, broker_epoch=7))
    assert delta.apply().brokers == {}
    assert delta.changed_brokers == {1}


def test_controllers_are_kept_beside_brokers() -> None:
    record = RegisterControllerRecord(
        controller_id=3,
        incarnation_id=UUID(int=9),
        zk_migration_ready=False,
        end_points=(ControllerEndpoint(name="C", host="h", port=1, security_protocol=0),),
    )
    delta = ClusterDelta(_registered())
    delta.register_controller(record)
    image = delta.apply()
    assert image.controllers[3].endpoints[0].host == "h"
    assert list(image.to_records())[-1] == record


TYPES = request_types(ApiKey.BROKER_REGISTRATION, 4)


def test_endpoints_keep_their_order() -> None:
    rows = [TYPES.new("Listener", name=name, host="h", port=9092, security_protocol=0) for name in ("B", "A")]
    assert endpoints_of(rows) == (Endpoint("B", "h", 9092, 0), Endpoint("A", "h", 9092, 0))


def test_features_are_found_by_name() -> None:
    rows = [TYPES.new("Feature", name="kraft.version", min_supported_version=0, max_supported_version=1)]
    assert features_of(rows) == {"kraft.version": VersionRange(0, 1)}


D1, D2 = uuid.UUID(int=101), uuid.UUID(int=105)


def two_dirs() -> MetadataImage:
    image = cluster()
    image = applied(image, register_broker(image, registration(1, (D1, D2)), broker_epoch=3).records)
    return with_topic(applied(image, unfence_broker(image, 1).records), "t", 3)


@pytest.mark.parametrize(
    ("directory", "online"),
    [(D1, True), (D2, False), (DIRECTORY_UNASSIGNED, True), (DIRECTORY_MIGRATING, True), (DIRECTORY_LOST, False)],
)
def test_which_replicas_are_online(directory: DirectoryId, *, online: bool) -> None:
    image = two_dirs()
    partition = replace(image.topics.by_name["t"].partitions[0], directories=(directory,))
    broker = replace(image.cluster.brokers[1], directories=(D1,))
    assert broker.has_online_replica(partition) is online


def test_a_broker_without_known_dirs_has_all_of_them() -> None:
    image = two_dirs()
    broker = replace(image.cluster.brokers[1], directories=())
    assert broker.has_online_replica(image.topics.by_name["t"].partitions[0])
