from __future__ import annotations

import asyncio

from crabka.testing import SimulatedClock, VirtualTimeLoop
from crabka.testing.simulated_clock import EPOCH_MS
from tests.support.async_tests import run_with, virtual_time


@run_with(virtual_time)
async def test_clock_follows_virtual_time_to_the_millisecond(loop: VirtualTimeLoop, /) -> None:
    clock = SimulatedClock(loop)

    for passed_ms in range(1, 3000):
        await asyncio.sleep(0.001)
        assert clock.monotonic_ms() == passed_ms
    assert clock.now_ms() == EPOCH_MS + 2999


def test_skew_moves_the_wall_clock_only() -> None:
    loop = VirtualTimeLoop()
    clock = SimulatedClock(loop, skew_ms=-500)
    assert clock.now_ms() == EPOCH_MS - 500
    clock.skew_ms = 250
    assert clock.now_ms() == EPOCH_MS + 250
    assert clock.monotonic_ms() == 0
    loop.close()
