from __future__ import annotations

import pytest

from crabka.kraft.settings import (
    KraftSettings,
    LocalReplica,
    lost_election_backoff_ms,
    random_election_timeout_ms,
    successor_backoff_ms,
)
from tests.support.quorum.kraft_bench import MiddleRng, voter

SETTINGS = KraftSettings()


class LargestRng:
    def below(self, bound: int) -> int:
        return bound - 1


def test_times_follow_from_the_fetch_timeout() -> None:
    assert SETTINGS.check_quorum_timeout_ms == 3000
    assert SETTINGS.begin_quorum_period_ms == 1000
    assert SETTINGS.update_voter_period_ms == 2000


def test_an_election_timeout_is_one_to_two_times_the_setting() -> None:
    assert random_election_timeout_ms(SETTINGS, MiddleRng()) == 1500
    assert random_election_timeout_ms(SETTINGS, LargestRng()) == 1999
    assert random_election_timeout_ms(KraftSettings(election_timeout_ms=0), LargestRng()) == 0


@pytest.mark.parametrize(("retries", "wait"), [(1, 39), (2, 79), (3, 159), (20, 1000), (60, 1000)])
def test_lost_elections_wait_longer_and_longer(retries: int, wait: int) -> None:
    assert lost_election_backoff_ms(SETTINGS, LargestRng(), retries) == wait


@pytest.mark.parametrize(("position", "wait"), [(0, 0), (1, 250), (2, 500), (None, 500)])
def test_successors_wait_by_their_position(position: int | None, wait: int) -> None:
    assert successor_backoff_ms(SETTINGS, MiddleRng(), position, 3) == wait


def test_no_successor_waits_longer_than_the_maximum() -> None:
    assert successor_backoff_ms(SETTINGS, MiddleRng(), 30, 31) == 1000


def test_a_local_replica_has_the_key_of_its_node() -> None:
    assert LocalReplica(cluster_id="x", node=voter(4)).key == voter(4).key
