from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from crabka.runtime import ThreadPool, ThreadShare, run_all
from tests.support.async_tests import real_time, run_with


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool(2, queue_limit=4, name="test-share")
    yield pool
    pool.close()


def test_more_jobs_than_the_pool_admits_wait_for_their_turn(pool: ThreadPool) -> None:
    async def main() -> list[int]:
        share = ThreadShare(pool, 3)
        release = threading.Event()
        running = [share.submit(release.wait) for _ in range(3)]
        later = [share.submit(abs, -number) for number in range(100)]
        waiting_count = share.waiting_count
        # Before anything can fail: the pool waits for its threads.
        release.set()
        assert waiting_count == 100
        await asyncio.gather(*running)
        return await asyncio.gather(*later)

    assert asyncio.run(main()) == list(range(100))


def test_a_share_leaves_the_pool_to_others(pool: ThreadPool) -> None:
    async def main() -> int:
        share = ThreadShare(pool, 2)
        release = threading.Event()
        held = [share.submit(release.wait) for _ in range(50)]
        # Two of the jobs are in threads, 48 wait in the share: the queue of the pool is empty.
        other = pool.submit(abs, -7)
        release.set()
        found = await other
        await asyncio.gather(*held)
        return found

    assert asyncio.run(main()) == 7


@run_with(real_time)
async def test_failures_and_results_come_back_from_jobs_that_waited(pool: ThreadPool) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    share = ThreadShare(pool, 1)
    first, second = share.submit(abs, -1), share.submit(fail)
    assert await first == 1
    with pytest.raises(OSError, match="Input/output"):
        await second
    assert await share.submit(abs, -2) == 2


def test_a_cancelled_job_that_waits_never_runs(pool: ThreadPool) -> None:
    async def main() -> list[str]:
        ran: list[str] = []
        share = ThreadShare(pool, 1)
        release = threading.Event()
        first = share.submit(release.wait)
        dropped, kept = share.submit(ran.append, "dropped"), share.submit(ran.append, "kept")
        dropped.cancel()
        release.set()
        await asyncio.gather(first, kept)
        return ran

    assert asyncio.run(main()) == ["kept"]


@run_with(real_time)
async def test_a_closed_share_drops_what_waits_and_refuses_more(pool: ThreadPool) -> None:
    share = ThreadShare(pool, 1)
    release = threading.Event()
    first, second = share.submit(release.wait), share.submit(abs, -1)
    share.close()
    release.set()
    assert await first
    assert second.cancelled()
    with pytest.raises(RuntimeError, match="closed"):
        share.submit(abs, -1)


def test_run_all_draws_jobs_as_threads_take_them(pool: ThreadPool) -> None:
    drawn = 0
    most = 0
    done: list[int] = []

    def jobs() -> Iterator[object]:
        nonlocal drawn, most
        for number in range(200):
            drawn += 1
            most = max(most, drawn - len(done))
            yield lambda number=number: number

    asyncio.run(run_all(pool, jobs(), at_once=3, group_size=2, on_result=done.append))  # type: ignore[arg-type] # lambdas of no argument
    assert sorted(done) == list(range(200))
    assert most <= 6


def test_a_run_that_is_given_up_begins_no_more_jobs(pool: ThreadPool) -> None:
    began, release = threading.Event(), threading.Event()
    done: list[int] = []

    def first() -> None:
        began.set()
        release.wait()
        done.append(0)

    async def main() -> None:
        jobs = [first, *(lambda n=n: done.append(n) for n in range(1, 10))]
        running = asyncio.ensure_future(run_all(pool, jobs, at_once=1, group_size=5))
        await asyncio.to_thread(began.wait)
        running.cancel()
        await asyncio.wait([running])
        release.set()
        await pool.wait_submitted()

    asyncio.run(main())
    assert done == [0]


def test_a_share_waits_for_what_it_was_given(pool: ThreadPool) -> None:
    done: list[int] = []

    async def main() -> None:
        share = ThreadShare(pool, 1)
        for number in range(5):
            share.submit(done.append, number)
        await share.wait_submitted()

    asyncio.run(main())
    assert done == list(range(5))


def test_run_all_runs_the_rest_and_raises_the_first_failure(pool: ThreadPool) -> None:
    done: list[int] = []

    def job(number: int) -> int:
        if number in (3, 5):
            raise OSError(number, "broken")
        return number

    async def main() -> None:
        with pytest.raises(OSError, match="broken") as raised:
            await run_all(pool, [lambda n=n: job(n) for n in range(10)], at_once=1, group_size=4, on_result=done.append)  # type: ignore[misc]
        assert raised.value.errno == 3

    asyncio.run(main())
    assert done == [0, 1, 2, 4, 6, 7, 8, 9]
