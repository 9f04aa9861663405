from __future__ import annotations

import time

from crabka.runtime import SystemClock


def test_wall_clock_is_in_milliseconds_since_the_epoch() -> None:
    before = time.time()
    now_ms = SystemClock().now_ms()
    assert before * 1000 - 1 <= now_ms <= time.time() * 1000


def test_monotonic_clock_follows_the_monotonic_clock_of_the_machine() -> None:
    clock = SystemClock()
    before = time.monotonic()
    reading_ms = clock.monotonic_ms()
    assert before * 1000 - 1 <= reading_ms <= time.monotonic() * 1000
