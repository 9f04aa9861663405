"""Answers that are changed, held back or lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import pytest

from crabka.serving.changed_answers import held_back, when_answered
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with, virtual_time

if TYPE_CHECKING:
    from crabka.net.dispatch import Response
    from crabka.serving.changed_answers import Answer


def louder(response: Response) -> Response:
    assert response is not None
    return (*response, b"!")


def changed_answer(answer: Answer) -> Answer:
    return when_answered(answer, louder)


def late_answer(answer: Answer) -> Answer:
    return held_back(answer, 1.0)


WRAPS = (changed_answer, late_answer)


@run_with(virtual_time)
async def test_an_answer_is_changed_when_it_is_there(loop: VirtualTimeLoop, /) -> None:
    assert when_answered((b"a",), louder) == (b"a", b"!")
    later: asyncio.Future[Response] = loop.create_future()
    changed = when_answered(later, louder)
    assert isinstance(changed, asyncio.Future)
    later.set_result((b"a",))
    assert await changed == (b"a", b"!")


@run_with(virtual_time)
async def test_a_failure_passes(loop: VirtualTimeLoop, /) -> None:
    for wrap in WRAPS:
        later: asyncio.Future[Response] = loop.create_future()
        changed = wrap(later)
        assert isinstance(changed, asyncio.Future)
        later.set_exception(OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            await changed


@run_with(virtual_time)
async def test_an_answer_is_held_back_in_the_time_of_the_loop(loop: VirtualTimeLoop, /) -> None:
    assert held_back(None, 5.0) is None
    later: asyncio.Future[Response] = loop.create_future()
    for answer in ((b"a",), later):
        start = loop.time()
        held = held_back(answer, 5.0)
        assert isinstance(held, asyncio.Future)
        if not later.done():
            loop.call_later(1.0, later.set_result, (b"a",))
        assert await held == (b"a",)
        assert loop.time() - start >= 5.0


@run_with(virtual_time)
async def test_a_lost_connection_ends_what_it_waits_for_but_no_task(loop: VirtualTimeLoop, /) -> None:
    for wrap in WRAPS:
        later: asyncio.Future[Response] = loop.create_future()
        task: asyncio.Task[Response] = loop.create_task(_answer_after(2.0))
        for answer in (later, task):
            changed = wrap(answer)
            assert isinstance(changed, asyncio.Future)
            changed.cancel()
        await asyncio.sleep(0.1)
        assert later.cancelled()
        assert await task == (b"a",)


def _answer_after(seconds: float) -> Coroutine[Any, Any, Response]:
    async def answer() -> Response:
        await asyncio.sleep(seconds)
        return (b"a",)

    return answer()
