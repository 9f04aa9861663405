"""Deadlines in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from crabka.broker.coordinators.timers import DeadlineQueue
from crabka.errors import InvariantError
from crabka.testing import VirtualTimeLoop


def run(script: Callable[[DeadlineQueue, list[tuple[str, int]]], None], seconds: float = 1) -> list[tuple[str, int]]:
    """Run a script with a queue for some seconds; return what happened when."""
    loop = VirtualTimeLoop()
    seen: list[tuple[str, int]] = []

    async def main() -> None:
        queue = DeadlineQueue(lambda: round(loop.time() * 1000))
        task = asyncio.ensure_future(queue.run())
        script(queue, seen)
        await asyncio.wait([task], timeout=seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result()

    start = round(loop.time() * 1000)
    loop.run(main())
    return [(name, at - start) for name, at in seen]


def note(queue: DeadlineQueue, seen: list[tuple[str, int]], name: str) -> Callable[[], None]:
    return lambda: seen.append((name, queue._now_ms()))


def test_actions_run_in_the_order_of_their_deadlines() -> None:
    def script(queue: DeadlineQueue, seen: list[tuple[str, int]]) -> None:
        base = queue._now_ms()
        queue.arm("b", base + 200, note(queue, seen, "b"))
        queue.arm("a", base + 100, note(queue, seen, "a"))

    assert run(script) == [("a", 100), ("b", 200)]


def test_the_earliest_deadline_of_an_owner_counts_once() -> None:
    def script(queue: DeadlineQueue, seen: list[tuple[str, int]]) -> None:
        base = queue._now_ms()
        queue.arm("a", base + 200, note(queue, seen, "late"))
        queue.arm("a", base + 100, note(queue, seen, "early"))
        queue.arm("a", base + 300, note(queue, seen, "later"))
        assert len(queue) == 1

    assert run(script) == [("early", 100)]


def test_disarmed_actions_do_not_run() -> None:
    def script(queue: DeadlineQueue, seen: list[tuple[str, int]]) -> None:
        queue.arm("a", queue._now_ms() + 100, note(queue, seen, "a"))
        queue.disarm("a")
        queue.disarm("b")

    assert run(script) == []


def test_a_failure_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("broken")

    def script(queue: DeadlineQueue, seen: list[tuple[str, int]]) -> None:
        queue.arm("a", queue._now_ms() + 100, fail)
        queue.arm("b", queue._now_ms() + 200, note(queue, seen, "b"))

    assert run(script) == [("b", 200)]
    assert "broken" in caplog.text


def test_a_broken_invariant_ends_the_node() -> None:
    def fail() -> None:
        raise InvariantError("broken")

    with pytest.raises(InvariantError):
        run(lambda queue, _seen: queue.arm("a", queue._now_ms() + 100, fail))
