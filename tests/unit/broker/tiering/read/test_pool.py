from __future__ import annotations

import asyncio

import pytest

from crabka.broker.tiering.read.pool import ReaderBusyError, ReaderPool
from tests.support.async_tests import run_with, virtual_time
from tests.support.tiers.remote_reading import HeldThreads


@run_with(virtual_time)
async def test_no_more_waits_than_the_setting_allows() -> None:
    threads = HeldThreads()
    pool = ReaderPool(lambda _size: threads, size=lambda: 2, max_pending=3)
    assert (pool.queue_size, pool.idle_share) == (0, 1.0)
    futures = [pool.submit(int, str(number)) for number in range(5)]
    assert (pool.queue_size, pool.idle_share) == (3, 0.0)
    with pytest.raises(ReaderBusyError) as caught:
        pool.submit(int)
    assert caught.value.retriable
    threads.release()
    assert [await future for future in futures] == [0, 1, 2, 3, 4]
    await asyncio.sleep(0)
    assert (pool.queue_size, pool.idle_share) == (0, 1.0)
    pool.submit(int)
    threads.release()
    pool.close()


@run_with(virtual_time)
async def test_an_unread_failure_is_no_warning() -> None:
    threads = HeldThreads()
    pool = ReaderPool(lambda _size: threads, size=lambda: 1, max_pending=1)
    pool.submit(int, "no number")
    threads.release()


@run_with(virtual_time)
async def test_the_number_of_threads_may_change_and_what_was_begun_is_ended() -> None:
    made: list[tuple[int, HeldThreads]] = []
    size = 2

    def new_threads(count: int) -> HeldThreads:
        made.append((count, HeldThreads()))
        return made[-1][1]

    pool = ReaderPool(new_threads, size=lambda: size, max_pending=1)
    before = [pool.submit(int, str(number)) for number in range(2)]
    size = 5
    after = [pool.submit(int, str(number)) for number in range(4)]
    assert [count for count, _ in made] == [2, 5]
    assert (pool.queue_size, pool.idle_share) == (1, 0.0)
    old, new = made[0][1], made[1][1]
    assert not old.is_closed
    old.release()
    assert [await future for future in before] == [0, 1]
    await asyncio.sleep(0)
    assert old.is_closed
    assert not new.is_closed
    new.release()
    assert [await future for future in after] == [0, 1, 2, 3]
    await asyncio.sleep(0)
    # With nothing to do the old ones end at once.
    size = 1
    pool.run_later(int)
    assert new.is_closed
    made[2][1].release()
