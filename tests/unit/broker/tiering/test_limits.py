"""Turns and threads for slow work, and bytes per second."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import cast

import pytest

from crabka.broker.tiering.limits import ByteRateQuota, TierPool
from crabka.config.keys import LONG_MAX
from crabka.ports import Network, Runtime, Threads
from crabka.runtime import SystemClock, ThreadPool
from crabka.vfs import OsFileSystem
from tests.support.async_tests import real_time, run_with


class Scene:
    def __init__(self, size: int) -> None:
        self.size = size
        self.made: list[int] = []
        runtime = Runtime(
            SystemClock(),
            random.Random(1),
            cast("Threads", None),
            OsFileSystem(),
            cast("Network", None),
            make_pool=self._make,
        )
        self.pool = TierPool(runtime, "tier-test", lambda: self.size)

    def _make(self, size: int, name: str) -> ThreadPool:
        self.made.append(size)
        return ThreadPool(size, name=name)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@run_with(real_time)
async def test_no_more_turns_than_the_setting_allows_in_the_order_of_asking() -> None:
    scene = Scene(2)
    release, order = asyncio.Event(), []

    async def work(number: int) -> None:
        async with scene.pool.turn():
            order.append(number)
            await release.wait()

    tasks = [asyncio.create_task(work(number)) for number in range(5)]
    await settle()
    assert (order, scene.pool.active_count) == ([0, 1], 2)
    release.set()
    await asyncio.gather(*tasks)
    assert (order, scene.pool.active_count) == ([0, 1, 2, 3, 4], 0)


@run_with(real_time)
async def test_more_turns_when_the_setting_grows() -> None:
    scene = Scene(1)
    release, order = asyncio.Event(), []

    async def work(number: int) -> None:
        async with scene.pool.turn():
            order.append(number)
            await release.wait()

    tasks = [asyncio.create_task(work(number)) for number in range(2)]
    await settle()
    assert order == [0]
    scene.size = 3
    tasks.append(asyncio.create_task(work(2)))
    await settle()
    assert sorted(order) == [0, 1, 2]
    release.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("has_turn", [False, True])
@run_with(real_time)
async def test_a_cancelled_waiter_blocks_no_other(has_turn: bool) -> None:
    scene = Scene(1)
    first, release = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with scene.pool.turn():
            first.set()
            await release.wait()

    async def want() -> None:
        async with scene.pool.turn():
            pass

    holder = asyncio.create_task(hold())
    await first.wait()
    waiter, last = asyncio.create_task(want()), asyncio.create_task(want())
    await settle()
    if has_turn:
        # The turn is handed over in the same moment.
        release.set()
        await holder
        waiter.cancel()
    else:
        waiter.cancel()
        await settle()
        release.set()
        await holder
    await last
    assert waiter.cancelled() or waiter.done()
    assert scene.pool.active_count == 0


@run_with(real_time)
async def test_a_turn_ends_when_its_work_fails() -> None:
    scene = Scene(1)
    with pytest.raises(ZeroDivisionError):
        async with scene.pool.turn():
            await scene.pool.submit(lambda: 1 // 0)
    assert scene.pool.active_count == 0
    scene.pool.close()


def test_threads_are_made_when_needed_and_again_when_there_shall_be_more() -> None:
    async def main() -> None:
        scene = Scene(2)
        assert scene.made == []
        assert await scene.pool.submit(int, "1") == 1
        assert await scene.pool.submit(int, "2") == 2
        scene.size = 4
        assert await scene.pool.submit(int, "3") == 3
        scene.size = 1
        assert await scene.pool.submit(int, "4") == 4
        assert scene.made == [2, 4]
        scene.pool.close()

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name.startswith("tier-test"):
            thread.join()


def test_closing_a_pool_without_threads_is_fine() -> None:
    Scene(1).pool.close()


def test_closing_without_waiting_leaves_a_job_to_its_thread() -> None:
    release = threading.Event()

    async def main() -> None:
        scene = Scene(1)
        began = threading.Event()

        def work() -> None:
            began.set()
            release.wait()

        job = scene.pool.submit(work)
        while not began.is_set():
            await asyncio.sleep(0)
        scene.pool.close(wait=False)
        assert not job.done()

    asyncio.run(main())
    release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("tier-test"):
            thread.join()


def quota(limit: int) -> ByteRateQuota:
    return ByteRateQuota(lambda: limit, sample_count=10, sample_ms=1000)


def test_without_a_limit_there_is_no_wait() -> None:
    unlimited = quota(LONG_MAX)
    unlimited.record(10**12, 0)
    assert unlimited.wait_ms(0) == 0


def test_one_that_exceeds_the_rate_makes_the_next_one_wait() -> None:
    limited = quota(100)
    assert limited.wait_ms(0) == 0
    limited.record(1000, 0)
    assert limited.wait_ms(0) == 0  # just the rate
    limited.record(1, 500)
    wait_ms = limited.wait_ms(500)
    assert wait_ms == 9500
    assert limited.wait_ms(500 + wait_ms) == 0


def test_over_a_long_time_the_rate_is_kept() -> None:
    limited = quota(100)
    now_ms = moved = 0
    while now_ms < 100_000:
        if wait_ms := limited.wait_ms(now_ms):
            now_ms += wait_ms
        else:
            limited.record(300, now_ms)
            moved += 300
            now_ms += 10
    # A window may be used up at once, and exceeded by one that moves as a whole.
    assert 10 * 1000 <= moved <= 10 * (1000 + 300)


def test_the_rate_falls_as_time_passes() -> None:
    limited = quota(100)
    limited.record(5000, 0)
    assert limited.rate(0) == 500
    assert limited.rate(9999) == 500
    assert limited.rate(10_000) == 0


def test_a_limit_that_changes_counts_at_once() -> None:
    limit = [100]
    limited = ByteRateQuota(lambda: limit[0], sample_count=10, sample_ms=1000)
    limited.record(5000, 0)
    assert limited.wait_ms(1) > 0
    limit[0] = 1000
    assert limited.wait_ms(1) == 0
