from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import OperationError
from crabka.log.partition.decompression import (
    DECOMPRESSION_FACTOR,
    DecompressionBudget,
    check_record_count,
    decompressed_limit,
)
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from tests.support.async_tests import real_time, run_with
from tests.support.faults.bombs import bomb
from tests.support.pending_threads import PendingThreads


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_limit_of_a_batch_follows_the_setting_of_its_topic() -> None:
    assert decompressed_limit(replace(TopicConfig(), max_message_bytes=1_000_000)) == 1_000_000 * DECOMPRESSION_FACTOR
    assert decompressed_limit(replace(TopicConfig(), max_message_bytes=10)) >= 1 << 20


def test_more_records_than_an_uncompressed_batch_can_have_are_refused() -> None:
    config = replace(TopicConfig(), max_message_bytes=700_000)
    check_record_count(parse_header(bomb(1, 10, records_count=100_000)), config)
    with pytest.raises(OperationError) as caught:
        check_record_count(parse_header(bomb(1, 10, records_count=100_001)), config)
    assert caught.value.error_code is ErrorCode.message_too_large


@run_with(real_time)
async def test_jobs_wait_in_order_while_others_hold_the_memory() -> None:
    budget, threads = DecompressionBudget(100), PendingThreads()
    tasks = [asyncio.ensure_future(budget.run(threads, size, int)) for size in (60, 60, 10)]
    await settle()
    assert (len(threads.running), budget.used_bytes) == (1, 60), "the small one does not overtake"
    threads.running[0].set_result(None)
    await settle()
    assert (len(threads.running), budget.used_bytes) == (3, 70)
    threads.running[1].set_exception(ValueError("broken"))
    threads.running[2].set_result(None)
    await asyncio.wait(tasks)
    assert isinstance(tasks[1].exception(), ValueError)
    assert budget.used_bytes == 0


@run_with(real_time)
async def test_a_job_that_exceeds_the_budget_runs_by_itself() -> None:
    budget, threads = DecompressionBudget(100), PendingThreads()
    tasks = [asyncio.ensure_future(budget.run(threads, size, int)) for size in (10, 500, 10)]
    await settle()
    assert len(threads.running) == 1
    for number in range(3):
        threads.running[number].set_result(None)
        await settle()
        assert len(threads.running) == min(number + 2, 3)
    await asyncio.wait(tasks)
    assert budget.used_bytes == 0


@run_with(real_time)
async def test_who_gives_up_waiting_takes_nothing() -> None:
    budget, threads = DecompressionBudget(100), PendingThreads()
    tasks = [asyncio.ensure_future(budget.run(threads, 100, int)) for _ in range(3)]
    await settle()
    tasks[1].cancel()
    await settle()
    threads.running[0].set_result(None)
    # Cancelled in the moment in which it was admitted: its place is given back.
    tasks[2].cancel()
    await asyncio.wait(tasks)
    assert budget.used_bytes == 0


@run_with(real_time)
async def test_a_job_that_runs_keeps_its_memory_when_its_caller_has_gone() -> None:
    budget, threads = DecompressionBudget(100), PendingThreads()
    outcome = budget.submit(threads, 60, int)
    outcome.cancel()
    later = budget.submit(threads, 60, int)
    await settle()
    assert (len(threads.running), budget.used_bytes) == (1, 60)
    threads.running[0].set_exception(ValueError("too late for anybody"))
    await settle()
    threads.running[1].set_result(7)
    assert await later == 7
    assert budget.used_bytes == 0


@run_with(real_time)
async def test_a_pool_that_takes_no_job_costs_no_memory() -> None:
    class ClosedThreads(PendingThreads):
        def submit(self, _fn: Any, /, *_args: Any, **_kwargs: Any) -> asyncio.Future[Any]:
            raise RuntimeError("closed")

    budget, threads = DecompressionBudget(100), PendingThreads()
    held = budget.submit(threads, 60, int)
    refused = budget.submit(ClosedThreads(), 60, int)
    threads.running[0].set_result(None)
    with pytest.raises(RuntimeError, match="closed"):
        await refused
    await held
    assert budget.used_bytes == 0
