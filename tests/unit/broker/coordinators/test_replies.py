"""Answers that are there or come later."""

from __future__ import annotations

import asyncio

from crabka.broker.coordinators.replies import PendingReply
from tests.support.async_tests import run_with, virtual_time


def test_an_answer_that_is_there_is_not_waited_for() -> None:
    reply = PendingReply()
    reply.resolve("now")
    assert reply.result == "now"
    assert asyncio.run(reply.wait()) == "now"


def test_an_answer_that_comes_later_wakes_who_waits() -> None:
    async def main() -> object:
        reply = PendingReply()
        asyncio.get_running_loop().call_soon(reply.resolve, "later")
        return await reply.wait()

    assert asyncio.run(main()) == "later"


@run_with(virtual_time)
async def test_who_waits_too_long_receives_another_error() -> None:
    reply = PendingReply()
    assert await reply.wait_in_time(10, "late") == "late"
    reply.resolve("now")
    assert await reply.wait_in_time(10, "late") == "now"
    other = PendingReply()
    asyncio.get_running_loop().call_soon(other.resolve, "soon")
    assert await other.wait_in_time(10, "late") == "soon"
