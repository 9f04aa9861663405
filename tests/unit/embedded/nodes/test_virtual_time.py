"""Time that a test moves."""

from __future__ import annotations

import asyncio
import socket

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


def test_what_is_due_runs_before_what_has_arrived() -> None:
    time = VirtualTime()

    async def scenario() -> list[str]:
        order: list[str] = []
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            arrived = asyncio.Event()

            def read() -> None:
                order.append("arrived")
                loop.remove_reader(ours)
                arrived.set()

            for name in ("due", "cancelled", "due later"):
                timer = loop.call_later(60 + len(order), order.append, name)
                if name == "cancelled":
                    timer.cancel()

            async def wait() -> None:
                await asyncio.sleep(60.5)
                for _ in range(5):
                    await asyncio.sleep(0)
                order.append("task")

            waiting = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            loop.add_reader(ours, read)
            theirs.send(b"x")
            await time.advance_running(61)
            await arrived.wait()
            await waiting
        return order

    with asyncio.Runner(loop_factory=time.new_loop) as runner:
        assert runner.run(scenario()) == ["due", "due later", "task", "arrived"]
