from __future__ import annotations

import asyncio
import random

import pytest

from crabka.testing import InlineThreads, VirtualTimeLoop


def test_jobs_run_in_order_on_a_later_turn_of_the_loop() -> None:
    loop = VirtualTimeLoop()
    threads = InlineThreads(loop)
    seen: list[int] = []

    async def main() -> None:
        futures = [threads.submit(seen.append, number) for number in range(5)]
        assert seen == []
        await asyncio.gather(*futures)
        assert seen == [0, 1, 2, 3, 4]
        assert loop.time() == 0
        assert threads.pending_count == 0

    loop.run(main())


def test_results_and_errors_come_back() -> None:
    loop = VirtualTimeLoop()
    threads = InlineThreads(loop, random.Random(1), max_delay_ms=5)

    async def main() -> None:
        assert await threads.submit(int, "ff", base=16) == 255
        with pytest.raises(ValueError, match="invalid literal"):
            await threads.submit(int, "x")
        assert 0 < loop.time() < 0.020

    loop.run(main())


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


def test_kill_drops_pending_work_and_answers_for_good() -> None:
    loop = VirtualTimeLoop()
    threads = InlineThreads(loop, random.Random(1), max_delay_ms=5)
    seen: list[str] = []

    async def main() -> None:
        before = threads.submit(seen.append, "before")
        threads.kill()
        after = threads.submit(seen.append, "after")
        await asyncio.sleep(1)
        assert seen == []
        assert not before.done()
        assert not after.done()

    loop.run(main())


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


def test_close_does_all_pending_work_and_refuses_more() -> None:
    loop = VirtualTimeLoop()
    threads = InlineThreads(loop, random.Random(1), max_delay_ms=5)
    seen: list[int] = []

    async def main() -> None:
        futures = [threads.submit(seen.append, number) for number in range(3)]
        threads.close()
        assert seen == [0, 1, 2]
        assert all(future.done() for future in futures)
        with pytest.raises(RuntimeError, match="closed"):
            threads.submit(int)

    loop.run(main())
