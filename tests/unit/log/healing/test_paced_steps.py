"""Checks rest between their steps, as long as the settings demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crabka.log.healing.paced_steps import PacedSteps
from crabka.log.healing.scrub_settings import ScrubSettings
from crabka.ports import Runtime
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with, virtual_time

STEP_MS = 10
STEP_BYTES = 1000


class SlowThreads:
    """Each job takes some time, and its result comes however its caller fares."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self.results: list[object] = []

    def submit(self, work: Callable[..., Any], *args: object) -> asyncio.Future[Any]:
        done = self._loop.create_future()

        def finish() -> None:
            self.results.append(work(*args))
            done.set_result(self.results[-1])

        self._loop.call_later(STEP_MS / 1000, finish)
        return done


@dataclass
class Counted:
    bytes_checked: int = 0


def paced(loop: VirtualTimeLoop, settings: ScrubSettings) -> tuple[PacedSteps, SlowThreads, Counted]:
    threads, counted = SlowThreads(loop), Counted()
    clock = SimpleNamespace(monotonic_ms=lambda: round(loop.time() * 1000))
    runtime = cast("Runtime", SimpleNamespace(clock=clock, threads=threads))
    return PacedSteps(runtime, lambda: settings, counted, urgent_cpu_percent=50), threads, counted


def steps(count: int) -> Iterator[int]:
    return iter([STEP_BYTES] * count)


@pytest.mark.parametrize(
    ("settings", "is_urgent", "expected_ms"),
    [
        (ScrubSettings(max_cpu_percent=10), False, 100),
        (ScrubSettings(max_cpu_percent=100, max_bytes_per_second=4 * STEP_BYTES), False, 250),
        (ScrubSettings(max_cpu_percent=1, max_bytes_per_second=1), True, 20),
    ],
)
@run_with(virtual_time)
async def test_a_step_and_its_rest_take_the_time_that_the_settings_give(
    loop: VirtualTimeLoop, /, settings: ScrubSettings, is_urgent: bool, expected_ms: int
) -> None:
    run, _, counted = paced(loop, settings)
    await run.run(steps(20), is_urgent=is_urgent)
    assert counted.bytes_checked == 20 * STEP_BYTES
    assert loop.time() * 1000 == pytest.approx(20 * expected_ms, rel=0.1)


@run_with(virtual_time)
async def test_a_cancelled_check_waits_for_the_step_that_reads(loop: VirtualTimeLoop, /) -> None:
    run, threads, counted = paced(loop, ScrubSettings())
    task = loop.create_task(run.run(steps(3), is_urgent=True))
    await asyncio.sleep(STEP_MS / 2000)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert threads.results == [STEP_BYTES]
    assert counted.bytes_checked == 0
