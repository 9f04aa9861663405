from __future__ import annotations

import asyncio

import pytest

from crabka.broker.tiering.reader_pool import ReaderBusyError, ReaderPool
from crabka.testing import VirtualTimeLoop
from tests.support.remote_reading import HeldThreads


def test_no_more_waits_than_the_setting_allows() -> None:
    async def main() -> None:
        threads = HeldThreads()
        pool = ReaderPool(threads, thread_count=2, max_pending=3)
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

    VirtualTimeLoop().run(main())


def test_a_failure_that_nobody_looks_at_is_no_warning() -> None:
    async def main() -> None:
        threads = HeldThreads()
        pool = ReaderPool(threads, thread_count=1, max_pending=1)
        pool.submit(int, "no number")
        threads.release()

    VirtualTimeLoop().run(main())
