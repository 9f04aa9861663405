"""Throttled replication."""

from __future__ import annotations

import pytest

from crabka.broker.replication.throttle import (
    FOLLOWER_RATE,
    LEADER_RATE,
    ReplicationThrottle,
    is_throttled_replica,
    may_move,
    throttled_rate,
)
from crabka.metadata.configs import ConfigResource, ConfigResourceType, ConfigsImage


@pytest.mark.parametrize(
    ("setting", "throttled"),
    [((), False), (("*",), True), (("0:1", "3:2"), True), (("3:1", "2:3"), False), (("13:2",), False)],
)
def test_which_replicas_a_topic_throttles(setting: tuple[str, ...], throttled: bool) -> None:
    assert is_throttled_replica(setting, 3, 2) is throttled


def test_the_rate_is_that_of_the_window() -> None:
    throttle = ReplicationThrottle(sample_count=3, sample_ms=1000)
    assert throttle.rate(0) == 0
    throttle.record(500, 0)
    assert throttle.rate(0) == 500
    throttle.record(1500, 999)
    assert throttle.rate(1000) == 2000
    throttle.record(1000, 2000)
    assert throttle.rate(2000) == 1500
    # The first sample has left the window.
    assert throttle.rate(3000) == 1000
    assert throttle.rate(5000) == 0


def test_the_limit() -> None:
    throttle = ReplicationThrottle()
    throttle.record(10**9, 0)
    assert not throttle.is_exceeded(0)
    throttle.bytes_per_second = 10**8
    assert throttle.is_exceeded(0)
    assert not throttle.is_exceeded(10_000)


def test_zero_stops_throttled_replicas_only_after_they_moved_something() -> None:
    throttle = ReplicationThrottle()
    throttle.bytes_per_second = 0
    assert not throttle.is_exceeded(0)
    throttle.record(1, 0)
    assert throttle.is_exceeded(0)


@pytest.mark.parametrize(
    ("is_throttled", "is_in_sync", "may"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_only_throttled_replicas_out_of_sync_wait(is_throttled: bool, is_in_sync: bool, may: bool) -> None:
    throttle = ReplicationThrottle()
    throttle.bytes_per_second = 10
    throttle.record(1000, 0)
    assert may_move(throttle, is_throttled=is_throttled, is_in_sync=is_in_sync, now_ms=0) is may
    assert may_move(throttle, is_throttled=is_throttled, is_in_sync=is_in_sync, now_ms=60_000)


def test_the_rate_of_a_broker_goes_before_that_of_all() -> None:
    def broker(name: str, rate: str) -> tuple[ConfigResource, dict[str, str]]:
        return ConfigResource(ConfigResourceType.BROKER, name), {LEADER_RATE: rate}

    configs = ConfigsImage(dict([broker("", "10"), broker("2", "20")]))
    assert throttled_rate(configs, 2, LEADER_RATE) == 20
    assert throttled_rate(configs, 3, LEADER_RATE) == 10
    assert throttled_rate(configs, 2, FOLLOWER_RATE) is None
