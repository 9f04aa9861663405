"""Which replica a consumer is sent to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.broker.replication.closest_replica import ReplicaView, closest_replica

LEADER = ReplicaView(1, "a", 0, 100)
NEAR = ReplicaView(2, "b", 0, 90, 10)
REPLICAS = [LEADER, NEAR, ReplicaView(3, "b", 0, 80), ReplicaView(4, "c", 0, 100)]


def choice(
    *,
    rack: str | None = "b",
    offset: int = 50,
    isr: tuple[int, ...] = (1, 2, 3, 4),
    replicas: list[ReplicaView] = REPLICAS,
) -> int | None:
    return closest_replica(replicas, leader_id=1, isr=isr, client_rack=rack, fetch_offset=offset)


def test_the_follower_of_the_rack_that_has_most() -> None:
    assert choice() == 2
    assert choice(rack="c") == 4
    assert choice(isr=(1, 3)) == 3


@pytest.mark.parametrize("rack", ["a", "nowhere", "", None])
def test_the_leader_is_reported_by_silence(rack: str | None) -> None:
    assert choice(rack=rack) is None


def test_a_leader_in_the_rack_beats_every_follower_there() -> None:
    assert choice(replicas=[replace(LEADER, rack="b"), NEAR]) is None


@pytest.mark.parametrize(("offset", "expected"), [(90, 2), (91, None), (100, None), (0, 2), (-1, None)])
def test_only_a_replica_that_has_the_offset(offset: int, expected: int | None) -> None:
    assert choice(offset=offset) == expected


def test_who_is_not_in_sync_is_not_chosen() -> None:
    assert choice(isr=(1, 4)) is None


def test_of_two_equal_ones_the_one_caught_up_last() -> None:
    fresher = ReplicaView(5, "b", 0, 90, 5)
    assert choice(replicas=[LEADER, NEAR, fresher], isr=(1, 2, 5)) == 5
