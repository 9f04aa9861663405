"""How long the cleaner rests."""

from __future__ import annotations

import sys

from crabka.log.cleaner.throttle import CleanerThrottle


def test_steps_are_spread_over_time() -> None:
    throttle = CleanerThrottle()
    assert throttle.rest_ms(500, 1000, now_ms=10_000) == 500
    assert throttle.rest_ms(250, 1000, now_ms=10_500) == 250


def test_a_step_that_took_long_needs_less_rest_but_saves_nothing_up() -> None:
    throttle = CleanerThrottle()
    throttle.rest_ms(500, 1000, now_ms=10_000)
    assert throttle.rest_ms(500, 1000, now_ms=10_200) == 800
    assert throttle.rest_ms(500, 1000, now_ms=99_000) == 500


def test_without_a_limit_there_is_no_rest() -> None:
    assert CleanerThrottle().rest_ms(1 << 30, sys.float_info.max, now_ms=5) < 1e-6
