"""What a leader knows of a follower."""

from __future__ import annotations

import pytest

from crabka.broker.replication.follower_progress import FollowerFetch, FollowerProgress
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode


def is_caught_up(follower: FollowerProgress, leader_end_offset: int, now_ms: int) -> bool:
    return follower.is_caught_up(leader_end_offset=leader_end_offset, now_ms=now_ms, max_lag_ms=100)


def test_a_follower_at_the_end_is_caught_up_however_long_ago_it_fetched() -> None:
    follower = FollowerProgress()
    assert not is_caught_up(follower, 10, 0)
    follower.fetched(FollowerFetch(10, 2), leader_end_offset=10, now_ms=0)
    assert (follower.log_end_offset, follower.log_start_offset) == (10, 2)
    assert is_caught_up(follower, 10, 10_000)
    assert is_caught_up(follower, 11, 100)
    assert not is_caught_up(follower, 11, 101)


def test_under_load_a_follower_counts_as_caught_up_at_its_fetch_before() -> None:
    follower = FollowerProgress()
    follower.fetched(FollowerFetch(0, 0), leader_end_offset=50, now_ms=0)
    assert not is_caught_up(follower, 50, 0)
    follower.fetched(FollowerFetch(50, 0), leader_end_offset=90, now_ms=80)
    assert follower.last_caught_up_ms == 0
    follower.fetched(FollowerFetch(90, 0), leader_end_offset=140, now_ms=160)
    assert follower.last_caught_up_ms == 80
    assert is_caught_up(follower, 200, 180)
    assert not is_caught_up(follower, 200, 181)


def test_a_follower_that_falls_behind_was_caught_up_long_ago() -> None:
    follower = FollowerProgress()
    follower.fetched(FollowerFetch(10, 0), leader_end_offset=10, now_ms=0)
    for now_ms in (50, 90, 150):
        follower.fetched(FollowerFetch(11, 0), leader_end_offset=1000 + now_ms, now_ms=now_ms)
    # At the first of these fetches it had all that was there at the fetch before.
    assert follower.last_caught_up_ms == 0
    assert not is_caught_up(follower, 2000, 150)


def test_time_does_not_go_back() -> None:
    follower = FollowerProgress()
    follower.fetched(FollowerFetch(10, 0), leader_end_offset=10, now_ms=500)
    follower.fetched(FollowerFetch(10, 0), leader_end_offset=10, now_ms=400)
    assert (follower.last_caught_up_ms, follower.last_fetch_ms) == (500, 500)


def test_an_older_incarnation_is_refused() -> None:
    follower = FollowerProgress()
    follower.fetched(FollowerFetch(10, 0, 7), leader_end_offset=10, now_ms=0)
    with pytest.raises(OperationError) as caught:
        follower.fetched(FollowerFetch(12, 0, 6), leader_end_offset=20, now_ms=1)
    assert caught.value.error_code is ErrorCode.not_leader_or_follower
    assert (follower.log_end_offset, follower.broker_epoch) == (10, 7)
    follower.fetched(FollowerFetch(3, 0, 8), leader_end_offset=20, now_ms=1)
    assert (follower.log_end_offset, follower.broker_epoch) == (3, 8)


def test_a_fetch_like_the_one_before_keeps_it_caught_up() -> None:
    follower = FollowerProgress()
    follower.fetched(FollowerFetch(10, 0), leader_end_offset=10, now_ms=500)
    follower.stays_caught_up(10, 700)
    assert (follower.last_caught_up_ms, follower.last_fetch_ms) == (700, 700)
    follower.stays_caught_up(10, 600)
    assert (follower.last_caught_up_ms, follower.last_fetch_ms) == (700, 700)
    # The leader went on; what it had at the last fetch is what the follower has now.
    follower.fetched(FollowerFetch(10, 0), leader_end_offset=20, now_ms=900)
    assert follower.last_caught_up_ms == 700
