"""Fencing, unfencing, stopping and forgetting brokers; lost and cordoned log dirs."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from crabka.controller.decisions.broker_changes import (
    cleanup_records,
    controlled_shutdown_records,
    cordoned_directory_records,
    fence_broker,
    fencing_records,
    offline_directory_records,
    unfencing_records,
    unregister_broker,
)
from crabka.controller.decisions.control_view import DEFAULT_RULES, ControlView
from crabka.errors import OperationError
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import (
    ELR_ON,
    applied,
    cluster,
    partition_of,
    register_broker,
    registration,
    unfence_broker,
    with_partitions,
)

D1, D2 = uuid.UUID(int=501), uuid.UUID(int=502)


def three(**features: Any) -> MetadataImage:
    return with_partitions(cluster(1, 2, 3, **features), "t", {"replicas": (1, 2)}, {"replicas": (1,)})


def test_a_fenced_broker_leads_nothing_before_it_is_fenced() -> None:
    image = three()
    records = fencing_records(ControlView(image), 1)
    assert records[-1] == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1)
    image = applied(image, records)
    assert image.cluster.brokers[1].fenced
    assert (partition_of(image, "t", 0).leader, partition_of(image, "t", 0).isr) == (2, (2,))
    assert (partition_of(image, "t", 1).leader, partition_of(image, "t", 1).isr) == (-1, (1,))


def test_fencing_twice_changes_nothing_the_second_time() -> None:
    image = applied(three(), fencing_records(ControlView(three()), 1))
    assert fence_broker(image, DEFAULT_RULES, 1, broker_epoch=1).records == []
    (only,) = fencing_records(ControlView(image), 1)
    assert isinstance(only, BrokerRegistrationChangeRecord)


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 7), (9, 9)])
def test_another_incarnation_is_not_fenced(broker_id: int, epoch: int) -> None:
    outcome = fence_broker(three(), DEFAULT_RULES, broker_id, broker_epoch=epoch)
    assert (outcome.result, outcome.records) == (False, [])


def test_fencing_reports_that_it_did() -> None:
    outcome = fence_broker(three(), DEFAULT_RULES, 1, broker_epoch=1)
    assert outcome.result
    assert applied(three(), outcome.records).cluster.brokers[1].fenced


@pytest.mark.parametrize("features", [{}, {"features": ELR_ON}])
def test_a_lone_replica_leads_again_after_fencing_and_unfencing(features: dict[str, Any]) -> None:
    image = three(**features)
    image = applied(image, fencing_records(ControlView(image), 1))
    assert partition_of(image, "t", 1).leader == -1
    image = applied(image, unfencing_records(ControlView(image), 1))
    lone = partition_of(image, "t", 1)
    assert (lone.leader, lone.isr, lone.elr, lone.last_known_elr) == (1, (1,), (), ())
    assert lone.leader_epoch == 7
    assert partition_of(image, "t", 0).leader == 2


def test_a_stopping_broker_gives_its_partitions_away_and_joins_no_isr() -> None:
    image = three()
    records = controlled_shutdown_records(ControlView(image), 1)
    assert records[0] == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1)
    image = applied(image, records)
    assert [partition_of(image, "t", i).leader for i in (0, 1)] == [2, -1]
    assert not ControlView(image).is_active(1)
    assert controlled_shutdown_records(ControlView(image), 1) == []


def test_a_broker_that_stopped_cleanly_stays_eligible() -> None:
    image = three(features=ELR_ON)
    image = applied(image, cleanup_records(ControlView(image), 1, clean=True))
    lone = partition_of(image, "t", 1)
    assert (lone.isr, lone.elr, lone.last_known_elr, lone.leader) == ((), (1,), (1,), -1)


def test_a_broker_that_crashed_is_not_eligible() -> None:
    image = three(features=ELR_ON)
    image = applied(image, cleanup_records(ControlView(image), 1, clean=False))
    lone = partition_of(image, "t", 1)
    assert (lone.isr, lone.elr, lone.last_known_elr, lone.leader) == ((), (), (1,), -1)


def test_without_elr_a_crash_is_like_a_clean_stop() -> None:
    image = three()
    clean = cleanup_records(ControlView(image), 1, clean=True)
    assert cleanup_records(ControlView(image), 1, clean=False) == clean
    assert partition_of(applied(image, clean), "t", 1).isr == (1,)


def two_dirs() -> MetadataImage:
    image = cluster(2)
    image = applied(image, register_broker(image, registration(1, (D1, D2)), broker_epoch=3).records)
    image = applied(image, unfence_broker(image, 1).records)
    second = uuid.UUID(int=1002)
    return with_partitions(
        image, "t", {"replicas": (1, 2), "directories": (D1, second)}, {"replicas": (1, 2), "directories": (D2, second)}
    )


def test_a_lost_dir_costs_its_partitions_only() -> None:
    image = two_dirs()
    records = offline_directory_records(ControlView(image), 1, [D2, uuid.UUID(int=999)])
    image = applied(image, records)
    assert image.cluster.brokers[1].directories == (D1,)
    assert [(partition_of(image, "t", i).leader, partition_of(image, "t", i).isr) for i in (0, 1)] == [
        (1, (1, 2)),
        (2, (2,)),
    ]
    assert offline_directory_records(ControlView(image), 1, [D2]) == []


def test_cordoned_dirs_are_recorded_when_they_change() -> None:
    view = ControlView(two_dirs())
    assert cordoned_directory_records(view, 1, None) == []
    assert cordoned_directory_records(view, 1, []) == []
    (record,) = cordoned_directory_records(view, 1, [D1])
    image = applied(two_dirs(), [record])
    assert image.cluster.brokers[1].cordoned_directories == (D1,)
    assert cordoned_directory_records(ControlView(image), 1, [D1]) == []
    image = applied(image, cordoned_directory_records(ControlView(image), 1, []))
    assert image.cluster.brokers[1].cordoned_directories == ()


def test_a_forgotten_broker_is_in_sync_and_eligible_nowhere() -> None:
    image = with_partitions(
        cluster(1, 2, features=ELR_ON),
        "t",
        {"replicas": (1, 2)},
        {"replicas": (2, 1), "isr": (2,), "eligible_leader_replicas": (1,)},
        min_insync_replicas="2",
    )
    outcome = unregister_broker(image, DEFAULT_RULES, 1)
    assert outcome.records[-1] == UnregisterBrokerRecord(broker_id=1, broker_epoch=1)
    image = applied(image, outcome.records)
    assert list(image.cluster.brokers) == [2]
    for index in (0, 1):
        assert (partition_of(image, "t", index).isr, partition_of(image, "t", index).elr) == ((2,), ())


def test_an_unknown_broker_cannot_be_unregistered() -> None:
    with pytest.raises(OperationError, match="Broker ID 9 is not currently registered") as caught:
        unregister_broker(three(), DEFAULT_RULES, 9)
    assert caught.value.error_code is ErrorCode.broker_id_not_registered
