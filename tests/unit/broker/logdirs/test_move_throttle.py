"""How fast moves may be."""

from __future__ import annotations

import pytest

from crabka.broker.logdirs.move_throttle import MIN_STEP_BYTES, STEP_MS, MoveThrottle

MEGABYTE = 1024 * 1024


def test_without_a_limit_there_is_no_wait() -> None:
    throttle = MoveThrottle()
    throttle.pay(100 * MEGABYTE, 0)
    assert throttle.wait_ms(0) == 0
    assert throttle.step_bytes(4 * MEGABYTE) == 4 * MEGABYTE


def test_steps_are_small_enough_for_the_limit() -> None:
    throttle = MoveThrottle()
    throttle.bytes_per_second = MEGABYTE
    assert throttle.step_bytes(4 * MEGABYTE) == MEGABYTE // 5
    throttle.bytes_per_second = 10
    assert throttle.step_bytes(4 * MEGABYTE) == MIN_STEP_BYTES


@pytest.mark.parametrize("movers", [1, 4])
def test_the_rate_is_kept_however_many_move(movers: int) -> None:
    throttle = MoveThrottle()
    throttle.bytes_per_second = MEGABYTE
    now_ms, written = 1000.0, 0
    while now_ms < 11_000:
        for _ in range(movers):
            if throttle.wait_ms(now_ms) == 0:
                size = throttle.step_bytes(4 * MEGABYTE)
                throttle.pay(size, now_ms)
                written += size
        now_ms += 5
    assert written / 10 == pytest.approx(MEGABYTE, rel=0.05)


def test_waking_up_late_and_slow_steps_cost_nothing() -> None:
    throttle = MoveThrottle()
    throttle.bytes_per_second = MEGABYTE
    now_ms, written = 1000.0, 0
    while now_ms < 21_000:
        now_ms += throttle.wait_ms(now_ms) + 7
        size = throttle.step_bytes(4 * MEGABYTE)
        begun_ms = now_ms
        now_ms += 30
        throttle.pay(size, begun_ms)
        written += size
    assert written / 20 == pytest.approx(MEGABYTE, rel=0.02)


def test_a_clock_of_whole_milliseconds_gets_past_every_wait() -> None:
    throttle = MoveThrottle()
    throttle.bytes_per_second = 999_983
    now_ms = 5_000
    for _ in range(1000):
        wait_ms = throttle.wait_ms(now_ms)
        assert wait_ms == int(wait_ms)
        now_ms += wait_ms
        assert throttle.wait_ms(now_ms) == 0
        throttle.pay(100_069, now_ms)


def test_of_time_that_was_not_used_only_one_step_is_saved_up() -> None:
    throttle = MoveThrottle()
    throttle.bytes_per_second = 1000
    throttle.pay(1000, 60_000)
    assert throttle.wait_ms(60_000) == 1000 - STEP_MS
    throttle.pay(1000, 60_000)
    assert throttle.wait_ms(60_000) == 2000 - STEP_MS
