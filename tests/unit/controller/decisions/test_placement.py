"""Where new replicas go."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from crabka.controller.decisions.placement import initial_directories, is_usable, place_partitions
from crabka.errors import OperationError
from crabka.ids import DIRECTORY_UNASSIGNED
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import BrokerRegistrationChangeRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import applied, cluster, register_broker, registration, unfence_broker


def place(image: MetadataImage, count: int, factor: int, seed: int = 1) -> list[list[int]]:
    return place_partitions(image, partition_count=count, replication_factor=factor, rng=random.Random(seed))


@pytest.mark.parametrize("seed", range(5))
def test_leaders_go_round_and_no_broker_holds_two_replicas(seed: int) -> None:
    placed = place(cluster(1, 2, 3), 6, 2, seed)
    assert sorted(replicas[0] for replicas in placed) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(replicas)) == 2 for replicas in placed)


@pytest.mark.parametrize("seed", range(5))
def test_a_fenced_broker_may_follow_but_not_lead(seed: int) -> None:
    placed = place(cluster(1, 2, 3, fenced=[2]), 6, 3, seed)
    assert all(replicas[0] != 2 and 2 in replicas for replicas in placed)


def in_racks(racks: dict[int, str | None], fenced: tuple[int, ...] = ()) -> MetadataImage:
    image = cluster()
    for node_id, rack in racks.items():
        said = registration(node_id, rack=rack)
        image = applied(image, register_broker(image, said, broker_epoch=node_id).records)
        if node_id not in fenced:
            image = applied(image, unfence_broker(image, node_id).records)
    return image


NINE: dict[int, str | None] = {node_id: "abc"[node_id % 3] for node_id in range(9)}


@pytest.mark.parametrize("seed", range(5))
def test_replicas_of_a_partition_lie_in_different_racks(seed: int) -> None:
    placed = place(in_racks(NINE), 90, 3, seed)
    assert all({NINE[node_id] for node_id in replicas} == {"a", "b", "c"} for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    followers = Counter(node_id for replicas in placed for node_id in replicas)
    assert set(leaders.values()) == {10}
    assert set(followers.values()) == {30}


@pytest.mark.parametrize("seed", range(5))
def test_more_replicas_than_racks_share_racks_evenly(seed: int) -> None:
    for replicas in place(in_racks({1: "a", 2: "a", 3: "b", 4: "b"}), 8, 4, seed):
        assert sorted(replicas) == [1, 2, 3, 4]
        assert {(node_id + 1) // 2 for node_id in replicas[:2]} == {1, 2}


@pytest.mark.parametrize("seed", range(5))
def test_a_rack_of_fenced_brokers_only_follows(seed: int) -> None:
    placed = place(in_racks({1: "a", 2: "b", 3: "c"}, fenced=(3,)), 12, 2, seed)
    assert all(replicas[0] in (1, 2) and len(set(replicas)) == 2 for replicas in placed)


@pytest.mark.parametrize("seed", range(5))
def test_inside_a_rack_living_brokers_come_first(seed: int) -> None:
    placed = place(in_racks({1: "a", 2: "a", 3: "b", 4: "b"}, fenced=(2, 4)), 6, 2, seed)
    assert all(set(replicas) == {1, 3} for replicas in placed)


def test_brokers_without_a_rack_share_one() -> None:
    placed = place(in_racks({1: None, 2: None, 3: "a"}), 12, 2)
    assert all(3 in replicas for replicas in placed)


@pytest.mark.parametrize(
    ("changes", "usable"),
    [
        ({}, True),
        ({"fenced": True}, True),
        ({"in_controlled_shutdown": True}, False),
        ({"in_controlled_shutdown": True, "fenced": True}, True),
        ({"cordoned_directories": (uuid.UUID(int=1001),)}, False),
        ({"cordoned_directories": (uuid.UUID(int=1002),)}, True),
        ({"directories": (), "cordoned_directories": (uuid.UUID(int=1002),)}, True),
    ],
)
def test_which_brokers_get_new_replicas(changes: dict[str, Any], usable: bool) -> None:
    assert is_usable(replace(cluster(1).cluster.brokers[1], **changes)) is usable


def test_a_broker_on_its_way_out_gets_no_replicas() -> None:
    image = cluster(1, 2)
    leaving = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, in_controlled_shutdown=1)
    with pytest.raises(OperationError, match="only 1 broker"):
        place(applied(image, [leaving]), 1, 2)


def test_too_few_brokers() -> None:
    with pytest.raises(OperationError, match="cannot be reached because only 1 broker") as caught:
        place(cluster(1), 1, 2)
    assert caught.value.error_code is ErrorCode.invalid_replication_factor


def test_all_brokers_fenced() -> None:
    with pytest.raises(OperationError, match="All brokers are currently fenced"):
        place(cluster(1, fenced=[1]), 1, 1)


def test_no_broker_at_all() -> None:
    with pytest.raises(OperationError, match="only 0 broker"):
        place(cluster(), 1, 1)


def test_the_only_dir_of_a_broker_is_known_at_once() -> None:
    image = cluster(1)
    two = registration(2, (uuid.UUID(int=105), uuid.UUID(int=106)))
    image = applied(image, register_broker(image, two, broker_epoch=2).records)
    assert initial_directories(image, [1, 2, 3]) == (uuid.UUID(int=1001), DIRECTORY_UNASSIGNED, DIRECTORY_UNASSIGNED)
