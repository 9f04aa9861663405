"""How fast moves may be."""

from __future__ import annotations

import pytest

from crabka.broker.logdirs.move_throttle import MIN_STEP_BYTES, MoveThrottle

MEGABYTE = 1024 * 1024


def test_without_a_limit_nobody_waits() -> None:
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


def test_time_that_was_not_used_is_not_saved_up() -> None:
    throttle = MoveThrottle()
    throttle.bytes_per_second = 1000
    throttle.pay(1000, 0)
    assert throttle.wait_ms(0) == 1000
    throttle.pay(1000, 60_000)
    assert throttle.wait_ms(60_000) == 1000
