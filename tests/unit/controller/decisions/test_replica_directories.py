"""Brokers that report in which log dir their replicas lie."""

from __future__ import annotations

import uuid

import pytest

from crabka.controller.decisions.control_view import DEFAULT_RULES
from crabka.controller.decisions.replica_directories import ReplicaPlacement, assign_replicas
from crabka.errors import OperationError
from crabka.ids import DIRECTORY_UNASSIGNED
from crabka.metadata.image import MetadataImage
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import (
    applied,
    cluster,
    partition_of,
    register_broker,
    registration,
    topic_id_of,
    unfence_broker,
    with_partitions,
)

D1, D2, LOST = uuid.UUID(int=501), uuid.UUID(int=502), uuid.UUID(int=503)
T = topic_id_of("t")


def image_of() -> MetadataImage:
    image = cluster(2)
    image = applied(image, register_broker(image, registration(1, (D1, D2)), broker_epoch=3).records)
    image = applied(image, unfence_broker(image, 1).records)
    unknown = (DIRECTORY_UNASSIGNED, uuid.UUID(int=1002))
    return with_partitions(image, "t", *[{"replicas": (1, 2), "directories": unknown}] * 2, {"replicas": (2,)})


def assign(image: MetadataImage, *placements: ReplicaPlacement) -> tuple[MetadataImage, list[ErrorCode]]:
    outcome = assign_replicas(image, DEFAULT_RULES, placements, broker_id=1, broker_epoch=3)
    return applied(image, outcome.records), outcome.result


def test_placements_are_recorded_once() -> None:
    image, codes = assign(image_of(), ReplicaPlacement(D1, T, 0), ReplicaPlacement(D2, T, 1))
    assert codes == [ErrorCode.none, ErrorCode.none]
    assert [partition_of(image, "t", index).directory_of(1) for index in (0, 1)] == [D1, D2]
    assert partition_of(image, "t", 0).leader_epoch == 5
    again, _ = assign(image, ReplicaPlacement(D1, T, 0))
    assert again.offset == image.offset


def test_a_replica_in_a_dir_that_failed_stops_leading() -> None:
    image, codes = assign(image_of(), ReplicaPlacement(LOST, T, 0))
    assert codes == [ErrorCode.none]
    moved = partition_of(image, "t", 0)
    assert (moved.leader, moved.isr, moved.directory_of(1)) == (2, (2,), LOST)


def test_the_last_word_on_a_replica_counts() -> None:
    image, _ = assign(image_of(), ReplicaPlacement(LOST, T, 0), ReplicaPlacement(D1, T, 0))
    assert (partition_of(image).leader, partition_of(image).directory_of(1)) == (1, D1)


def test_what_a_broker_does_not_have() -> None:
    image, codes = assign(
        image_of(), ReplicaPlacement(D1, uuid.UUID(int=4), 0), ReplicaPlacement(D1, T, 9), ReplicaPlacement(D1, T, 2)
    )
    assert codes == [
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
    ]
    assert image.offset == image_of().offset


def test_a_stale_incarnation() -> None:
    with pytest.raises(OperationError) as caught:
        assign_replicas(image_of(), DEFAULT_RULES, [], broker_id=1, broker_epoch=2)
    assert caught.value.error_code is ErrorCode.stale_broker_epoch


def test_metadata_that_is_too_old() -> None:
    with pytest.raises(OperationError, match="Directory assignment is not supported yet") as caught:
        assign_replicas(cluster(1, features={"metadata.version": 16}), DEFAULT_RULES, [], broker_id=1, broker_epoch=1)
    assert caught.value.error_code is ErrorCode.unsupported_version


def test_a_replica_that_is_in_a_dir_that_works_after_all_leads_again() -> None:
    alone = {"replicas": (1,), "isr": (1,), "leader": -1, "directories": (LOST,)}
    image = with_partitions(image_of(), "u", alone)
    image, codes = assign(image, ReplicaPlacement(D2, topic_id_of("u"), 0))
    assert codes == [ErrorCode.none]
    found = partition_of(image, "u", 0)
    assert (found.leader, found.isr, found.directory_of(1)) == (1, (1,), D2)
