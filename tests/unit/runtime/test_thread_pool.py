from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from typing import TYPE_CHECKING

import pytest

from crabka.runtime import PoolSaturatedError, ThreadPool
from tests.support.async_tests import real_time, run_with

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool(2, queue_limit=3, name="test-pool")
    yield pool
    pool.close()


async def occupy(pool: ThreadPool, release: threading.Event) -> list[asyncio.Future[None]]:
    """Keep both threads busy until `release` is set."""
    loop = asyncio.get_running_loop()
    started = [asyncio.Event(), asyncio.Event()]

    def block(event: asyncio.Event) -> None:
        loop.call_soon_threadsafe(event.set)
        release.wait()

    running = [pool.submit(block, event) for event in started]
    for event in started:
        await event.wait()
    return running


def test_result_comes_back_to_the_loop_from_a_named_thread(pool: ThreadPool) -> None:
    def work(number: int, *, add: int) -> tuple[int, str]:
        return number + add, threading.current_thread().name

    async def main() -> tuple[int, str]:
        return await pool.submit(work, 1, add=2)

    result, name = asyncio.run(main())
    assert result == 3
    assert name in ("test-pool-0", "test-pool-1")


@run_with(real_time)
async def test_the_end_of_jobs_is_waited_for_though_they_were_cancelled(pool: ThreadPool) -> None:
    release = threading.Event()

    await pool.wait_submitted()
    running = await occupy(pool, release)
    pool.submit(pytest.fail, "it was cancelled before it began").cancel()
    for future in running:
        future.cancel()
    waiting = [asyncio.ensure_future(pool.wait_submitted()) for _ in range(2)]
    done, _ = await asyncio.wait(waiting, timeout=0.01)
    assert not done
    release.set()
    await asyncio.gather(*waiting)
    assert not pool._unfinished


@run_with(real_time)
async def test_what_follows_a_job_on_the_loop_is_done_and_later_jobs_are_not_waited_for(pool: ThreadPool) -> None:
    release, release_later = threading.Event(), threading.Event()
    followed: list[asyncio.Future[bool]] = []

    running = await occupy(pool, release)
    running[0].add_done_callback(lambda _: followed.append(pool.submit(release_later.wait)))
    waiting = asyncio.ensure_future(pool.wait_submitted())
    await asyncio.sleep(0)
    release.set()
    await waiting
    assert not followed[0].done()
    release_later.set()
    await followed[0]


@run_with(real_time)
async def test_jobs_that_are_dropped_keep_no_caller_waiting(pool: ThreadPool) -> None:
    release = threading.Event()

    await occupy(pool, release)
    pool.submit(print)
    pool.close(wait=False)
    release.set()
    await pool.wait_submitted()


def test_errors_come_back_to_the_loop(pool: ThreadPool) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    async def main() -> None:
        await pool.submit(fail)

    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(main())


def test_stop_iteration_does_not_leave_the_waiter_hanging(pool: ThreadPool) -> None:
    async def main() -> None:
        await pool.submit(next, iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(main())


@run_with(real_time)
async def test_queue_is_bounded(pool: ThreadPool) -> None:
    release = threading.Event()
    running = await occupy(pool, release)
    waiting = [pool.submit(int) for _ in range(3)]
    with pytest.raises(PoolSaturatedError):
        await pool.submit(int)
    release.set()
    await asyncio.gather(*running, *waiting)
    assert await pool.submit(int, "7") == 7


def test_cancelled_job_that_has_not_started_never_runs(pool: ThreadPool) -> None:
    ran: list[str] = []

    async def main() -> None:
        release = threading.Event()
        blocked = await occupy(pool, release)
        cancelled = pool.submit(ran.append, "cancelled")
        cancelled.cancel()
        after = pool.submit(ran.append, "after")
        release.set()
        await asyncio.gather(*blocked, after)

    asyncio.run(main())
    pool.close()
    assert ran == ["after"]


@run_with(real_time)
async def test_cancelling_a_running_job_ignores_its_result(pool: ThreadPool) -> None:
    release, started = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait()

    future = pool.submit(work)
    await asyncio.to_thread(started.wait)
    future.cancel()
    release.set()
    await pool.submit(int)
    pool.close()
    await asyncio.sleep(0)
    assert future.cancelled()


def test_close_finishes_what_was_submitted_and_refuses_more(pool: ThreadPool) -> None:
    done: list[int] = []

    async def main() -> None:
        futures = [pool.submit(done.append, number) for number in range(3)]
        pool.close()
        assert sorted(done) == [0, 1, 2]
        await asyncio.gather(*futures)
        with pytest.raises(RuntimeError, match="closed"):
            pool.submit(int)

    asyncio.run(main())
    pool.close()


def test_no_thread_outlives_close(pool: ThreadPool) -> None:
    async def main() -> None:
        await pool.submit(int)

    asyncio.run(main())
    pool.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test-pool")]


def test_pool_survives_a_loop_that_closes_before_the_result(pool: ThreadPool) -> None:
    release = threading.Event()

    async def abandon() -> None:
        pool.submit(release.wait)

    async def use_again() -> int:
        return await pool.submit(int, "5")

    asyncio.run(abandon())
    release.set()
    for _ in range(4):  # more often than there are threads: all of them are alive
        assert asyncio.run(use_again()) == 5


def test_close_without_waiting_drops_what_has_not_started(pool: ThreadPool) -> None:
    release = threading.Event()
    late: list[int] = []

    async def main() -> None:
        running = [pool.submit(release.wait) for _ in range(2)]
        waiting = pool.submit(late.append, 1)
        pool.close(wait=False)
        with pytest.raises(RuntimeError, match="closed"):
            pool.submit(int)
        release.set()
        await asyncio.gather(*running, waiting, return_exceptions=True)
        assert waiting.cancelled() == (not late)

    asyncio.run(main())
    pool.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test-pool")]


class Big(bytearray):
    """Memory that can be watched."""


def test_what_a_failed_job_held_is_free_without_the_collector(pool: ThreadPool) -> None:
    held: list[weakref.ref[Big]] = []

    def fail() -> None:
        buffer = Big(1000)
        held.append(weakref.ref(buffer))
        raise OSError(5, "Input/output error")

    async def main() -> None:
        with contextlib.suppress(OSError):
            await pool.submit(fail)
        while held[0]() is not None:  # the thread lets go a moment after the loop has the error
            await asyncio.sleep(0.001)

    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(main(), 20))
    finally:
        gc.enable()
