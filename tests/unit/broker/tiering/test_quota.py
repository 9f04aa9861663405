"""Bytes per second."""

from __future__ import annotations

from crabka.broker.tiering.quota import ByteRateQuota
from crabka.config.keys import LONG_MAX


def quota(limit: int) -> ByteRateQuota:
    return ByteRateQuota(lambda: limit, sample_count=10, sample_ms=1000)


def test_without_a_limit_nobody_waits() -> None:
    unlimited = quota(LONG_MAX)
    unlimited.record(10**12, 0)
    assert unlimited.wait_ms(0) == 0


def test_one_that_exceeds_the_rate_makes_the_next_one_wait() -> None:
    limited = quota(100)
    assert limited.wait_ms(0) == 0
    limited.record(1000, 0)
    assert limited.wait_ms(0) == 0  # just the rate
    limited.record(1, 500)
    wait_ms = limited.wait_ms(500)
    assert wait_ms == 9500
    assert limited.wait_ms(500 + wait_ms) == 0


def test_over_a_long_time_the_rate_is_kept() -> None:
    limited = quota(100)
    now_ms = moved = 0
    while now_ms < 100_000:
        if wait_ms := limited.wait_ms(now_ms):
            now_ms += wait_ms
        else:
            limited.record(300, now_ms)
            moved += 300
            now_ms += 10
    # A window may be used up at once, and exceeded by one that moves as a whole.
    assert 10 * 1000 <= moved <= 10 * (1000 + 300)


def test_the_rate_falls_as_time_passes() -> None:
    limited = quota(100)
    limited.record(5000, 0)
    assert limited.rate(0) == 500
    assert limited.rate(9999) == 500
    assert limited.rate(10_000) == 0


def test_a_limit_that_changes_counts_at_once() -> None:
    limit = [100]
    limited = ByteRateQuota(lambda: limit[0], sample_count=10, sample_ms=1000)
    limited.record(5000, 0)
    assert limited.wait_ms(1) > 0
    limit[0] = 1000
    assert limited.wait_ms(1) == 0
