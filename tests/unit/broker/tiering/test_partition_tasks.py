"""Loops of a partition: when they run, how they fail, how they end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from crabka.broker.tiering.copier import CustomMetadataTooLargeError
from crabka.broker.tiering.partition_tasks import PartitionTasks, RepeatedTask
from crabka.errors import InvariantError, StorageError
from crabka.remote.errors import NotReadyError, RemoteBackendError
from crabka.runtime.task_scope import TaskScope
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with, virtual_time
from tests.support.remote_segments import ORDERS

CONFIG: Any = SimpleNamespace(
    remote_log_manager_task_interval_ms=1000,
    remote_log_manager_task_retry_backoff_ms=100,
    remote_log_manager_task_retry_backoff_max_ms=5000,
    remote_log_manager_task_retry_jitter=0.0,
)
TOOLS: Any = SimpleNamespace(config=lambda: CONFIG, runtime=SimpleNamespace(rng=random.Random(1)))


def runs_of(outcomes: list[Exception | None], seconds: float) -> tuple[list[float], list[Exception]]:
    """Return when a task ran whose runs end like this, and of which failures somebody heard."""
    loop = VirtualTimeLoop()
    times: list[float] = []
    failures: list[Exception] = []
    remaining = list(outcomes)

    async def run_once() -> None:
        times.append(round(loop.time(), 3))
        outcome = remaining.pop(0) if remaining else None
        if outcome is not None:
            raise outcome

    async def main() -> None:
        task = RepeatedTask(TOOLS, "orders-0", on_failure=failures.append)
        running = asyncio.create_task(task.run(run_once))
        await asyncio.sleep(seconds)
        task.stop()
        await running
        assert not task.is_wanted

    loop.run(main())
    return times, failures


def test_it_runs_at_once_and_then_at_every_interval() -> None:
    assert runs_of([], 2.5) == ([0, 1, 2], [])


@pytest.mark.parametrize("error", [NotReadyError("soon"), RemoteBackendError("down"), ZeroDivisionError()])
def test_failures_make_it_come_back_early_and_then_more_rarely(error: Exception) -> None:
    assert runs_of([error] * 4, 2.8) == ([0, 0.1, 0.3, 0.7, 1.5, 2.5], [])


def test_a_success_makes_the_next_pause_after_a_failure_short_again() -> None:
    error = RemoteBackendError("down")
    assert runs_of([error, error, None, error], 1.45) == ([0, 0.1, 0.3, 1.3, 1.4], [])


def test_it_is_quiet_while_the_metadata_is_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    runs_of([NotReadyError("soon")] * 3, 2)
    assert not caplog.records
    runs_of([RemoteBackendError("down")], 2)
    assert "down" in caplog.text


def test_what_no_other_run_can_mend_ends_it() -> None:
    assert runs_of([CustomMetadataTooLargeError("129 bytes")], 5) == ([0], [])


@pytest.mark.parametrize("error", [StorageError("/d1", "dead"), InvariantError("impossible")])
def test_failures_that_concern_others_are_told_to_them(error: Exception) -> None:
    assert runs_of([error], 5) == ([0], [error])


@run_with(virtual_time)
async def test_a_loop_that_is_stopped_ends_in_its_pause(loop: VirtualTimeLoop, /) -> None:

    async def nothing() -> None:
        return None

    scope = TaskScope()
    log: Any = None
    tasks = PartitionTasks(TOOLS, ORDERS, log, is_leader=True, leader_epoch=3, on_failure=lambda _error: None)
    await tasks.wait_ended()
    runs: list[Callable[[], Awaitable[None]]] = [nothing, nothing]
    for run_once in runs:
        tasks.start(scope.start, run_once)
    await asyncio.sleep(0.5)
    assert len(scope) == 2
    began = loop.time()
    tasks.stop()
    await tasks.wait_ended()
    assert loop.time() == began
    await scope.close()


def test_another_epoch_in_the_same_role_is_told_once() -> None:
    log: Any = None
    told: list[int] = []

    async def main() -> None:
        tasks = PartitionTasks(TOOLS, ORDERS, log, is_leader=True, leader_epoch=3, on_failure=lambda _error: None)
        tasks.take_epoch(4)
        tasks.on_epoch = lambda: told.append(tasks.leader_epoch)
        for epoch in (4, 5, 5, 7):
            tasks.take_epoch(epoch)

    VirtualTimeLoop().run(main())
    assert told == [5, 7]
