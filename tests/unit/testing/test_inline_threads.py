from __future__ import annotations

import asyncio
import random

import pytest

from crabka.testing import InlineThreads, VirtualTimeLoop
from tests.support.async_tests import run_with, virtual_time


@run_with(virtual_time)
async def test_jobs_run_in_order_on_a_later_turn_of_the_loop(loop: VirtualTimeLoop, /) -> None:
    threads = InlineThreads(loop)
    seen: list[int] = []

    futures = [threads.submit(seen.append, number) for number in range(5)]
    assert seen == []
    await asyncio.gather(*futures)
    assert seen == [0, 1, 2, 3, 4]
    assert loop.time() == 0
    assert threads.pending_count == 0


@run_with(virtual_time)
async def test_results_and_errors_come_back(loop: VirtualTimeLoop, /) -> None:
    threads = InlineThreads(loop, random.Random(1), max_delay_ms=5)

    assert await threads.submit(int, "ff", base=16) == 255
    with pytest.raises(ValueError, match="invalid literal"):
        await threads.submit(int, "x")
    assert 0 < loop.time() < 0.020


def test_delays_shuffle_jobs_the_same_way_for_the_same_seed() -> None:
    def order(seed: int) -> list[int]:
        loop = VirtualTimeLoop()
        threads = InlineThreads(loop, random.Random(seed), max_delay_ms=5)
        seen: list[int] = []

        async def main() -> None:
            await asyncio.gather(*(threads.submit(seen.append, number) for number in range(20)))

        loop.run(main())
        return seen

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == list(range(20))


@run_with(virtual_time)
async def test_kill_drops_pending_work_and_answers_for_good(loop: VirtualTimeLoop, /) -> None:
    threads = InlineThreads(loop, random.Random(1), max_delay_ms=5)
    seen: list[str] = []

    before = threads.submit(seen.append, "before")
    threads.kill()
    after = threads.submit(seen.append, "after")
    await asyncio.sleep(1)
    assert seen == []
    assert not before.done()
    assert not after.done()


def test_kill_may_lose_the_answer_of_work_that_was_done() -> None:
    outcomes: set[tuple[bool, bool]] = set()
    for seed in range(50):
        loop = VirtualTimeLoop()
        threads = InlineThreads(loop, random.Random(seed), max_delay_ms=5)

        async def main(threads: InlineThreads = threads) -> tuple[bool, bool]:
            seen: list[int] = []
            future = threads.submit(seen.append, 1)
            await asyncio.sleep(0.005)
            threads.kill()
            return bool(seen), future.done()

        outcomes.add(loop.run(main()))
    assert outcomes == {(True, True), (True, False)}


def test_cancelled_job_that_has_not_started_never_runs() -> None:
    loop = VirtualTimeLoop()
    threads = InlineThreads(loop)
    seen: list[int] = []

    async def main() -> None:
        threads.submit(seen.append, 1).cancel()
        await asyncio.sleep(1)

    loop.run(main())
    assert seen == []


@run_with(virtual_time)
async def test_close_does_all_pending_work_and_refuses_more(loop: VirtualTimeLoop, /) -> None:
    threads = InlineThreads(loop, random.Random(1), max_delay_ms=5)
    seen: list[int] = []

    futures = [threads.submit(seen.append, number) for number in range(3)]
    threads.close()
    assert seen == [0, 1, 2]
    assert all(future.done() for future in futures)
    with pytest.raises(RuntimeError, match="closed"):
        threads.submit(int)
