"""Time that a test moves."""

from __future__ import annotations

import asyncio

from crabka.embedded.nodes.virtual_time import VirtualTime
from crabka.runtime import SystemClock

DAY_S = 86_400.0


def test_clock_and_timers_move_together() -> None:
    time, machine = VirtualTime(), SystemClock()

    async def scenario() -> list[str]:
        order: list[str] = []
        loop = asyncio.get_running_loop()
        began, began_ms = loop.time(), time.monotonic_ms()
        for name, days in (("second", 2), ("first", 1), ("never", 30)):
            loop.call_later(days * DAY_S, order.append, name)
        sleeping = asyncio.ensure_future(asyncio.sleep(3 * DAY_S))
        await asyncio.sleep(0)
        time.advance(3 * DAY_S)
        await sleeping
        assert loop.time() - began >= 3 * DAY_S
        assert time.monotonic_ms() - began_ms >= 3 * DAY_S * 1000
        assert time.now_ms() - machine.now_ms() >= 3 * DAY_S * 1000 - 1
        return order

    with asyncio.Runner(loop_factory=time.new_loop) as runner:
        assert runner.run(scenario()) == ["first", "second"]
    # The next life does not go back.
    with asyncio.Runner(loop_factory=time.new_loop) as runner:
        assert runner.get_loop().time() >= 3 * DAY_S
