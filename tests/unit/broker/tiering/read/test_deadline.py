from __future__ import annotations

import asyncio

import pytest

from crabka.broker.tiering.read.deadline import Deadline, RemoteWaitOverError
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with


def run(test: object) -> None:
    loop = VirtualTimeLoop()
    loop.run(test)  # type: ignore[arg-type]


@run_with(lambda test: run(test()))
async def test_what_comes_in_time_is_returned() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[int] = loop.create_future()
    loop.call_later(0.2, future.set_result, 7)
    assert await Deadline(500).wait(future) == 7


@run_with(lambda test: run(test()))
async def test_what_is_late_goes_on_for_others() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[int] = loop.create_future()
    loop.call_later(1, future.set_result, 7)
    with pytest.raises(RemoteWaitOverError):
        await Deadline(500).wait(future)
    assert loop.time() == pytest.approx(0.5)
    assert await future == 7


@run_with(lambda test: run(test()))
async def test_a_cancelled_waiter_does_not_cancel_what_it_waited_for() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiter = asyncio.get_running_loop().create_task(Deadline(500).wait(future))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])
    assert waiter.cancelled()
    assert not future.done()


@run_with(lambda test: run(test()))
async def test_without_time_only_what_is_there_counts() -> None:
    there: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    missing: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    there.set_result(1)
    await Deadline(0).reach(there, missing)
    assert await Deadline(0).wait(there) == 1
    with pytest.raises(RemoteWaitOverError):
        await Deadline(0).wait(missing)
