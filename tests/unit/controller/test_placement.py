"""Where new replicas go."""

from __future__ import annotations

import random
import uuid

import pytest

from crabka.controller.placement import initial_directories, place_partitions
from crabka.errors import OperationError
from crabka.ids import DIRECTORY_UNASSIGNED
from crabka.metadata.image import MetadataImage
from crabka.protocol.error_codes import ErrorCode
from tests.support.images import applied, cluster, registration


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
    from crabka.controller.brokers import register_broker

    image = cluster(1)
    two = registration(2, (uuid.UUID(int=5), uuid.UUID(int=6)))
    image = applied(image, register_broker(image, two, broker_epoch=2).records)
    assert initial_directories(image, [1, 2, 3]) == (uuid.UUID(int=1001), DIRECTORY_UNASSIGNED, DIRECTORY_UNASSIGNED)
