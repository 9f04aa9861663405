"""Turns and threads for slow work."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import cast

import pytest

from crabka.broker.tiering.pool import TierPool
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
async def test_who_is_cancelled_while_waiting_blocks_nobody(has_turn: bool) -> None:
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
