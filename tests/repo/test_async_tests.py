"""The decorator of asynchronous tests: what reaches the runner and what reaches the test."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import real_time, run_with, virtual_time

Body = Callable[..., Coroutine[Any, Any, None]]


def lend(test: Body, first: int, color: str, *, size: int = 1) -> None:
    asyncio.run(test((first, color, size), "spare"))


def test_a_test_receives_what_it_declares_and_pytest_sees_the_rest() -> None:
    seen: list[object] = []

    @run_with(lend, 7, size=2)
    async def test(lent: tuple[int, str, int], /, case: int) -> None:
        seen.append((lent, case))

    assert list(inspect.signature(test).parameters) == ["case", "color"]
    test(case=3, color="red")
    test(4, color="blue")
    assert seen == [((7, "red", 2), 3), ((7, "blue", 2), 4)]


def test_a_runner_and_its_test_share_a_fixture() -> None:
    seen: list[str] = []

    @run_with(lend, 7)
    async def test(color: str) -> None:
        seen.append(color)

    test(color="red")
    assert seen == ["red"]


def test_a_failure_reaches_pytest() -> None:
    @run_with(virtual_time)
    async def test() -> None:
        await asyncio.sleep(1)
        pytest.fail("as it must")

    with pytest.raises(pytest.fail.Exception, match="as it must"):
        test()


@run_with(virtual_time)
async def test_virtual_time_passes_its_loop(loop: VirtualTimeLoop, /) -> None:
    await asyncio.sleep(1000)
    assert loop is asyncio.get_running_loop()
    assert loop.time() == 1000


@run_with(real_time)
async def test_real_time_runs_on_asyncio() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
