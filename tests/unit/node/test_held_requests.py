"""Requests that come before there is anybody to answer them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.broker.api_table import TABLE
from crabka.errors import WireError
from crabka.net.dispatch import ConnectionInfo
from crabka.node.held_requests import HeldRequests
from crabka.protocol.apis import ApiKey, encode_request
from crabka.protocol.headers import RequestHeader, pack_request
from crabka.serving.dispatch import Dispatcher
from tests.support.async_tests import real_time, run_with
from tests.support.nodes.sim_node import SimNode, batch, produce_body

CLIENT = ConnectionInfo(1, "CONTROLLER", "host", 1)


@run_with(real_time)
async def test_frames_wait_and_are_answered_in_order() -> None:
    held = HeldRequests()
    waiting: list[Any] = [held(CLIENT, memoryview(frame)) for frame in (b"a", b"b")]
    assert not any(each.done() for each in waiting)
    seen = []

    def dispatch(_: ConnectionInfo, frame: memoryview) -> Any:
        seen.append(bytes(frame))
        return (bytes(frame).upper(),)

    held.release(dispatch)
    assert seen == [b"a", b"b"]
    assert [await each for each in waiting] == [(b"A",), (b"B",)]
    assert held(CLIENT, memoryview(b"c")) == (b"C",)


@run_with(real_time)
async def test_answers_that_come_later_are_passed_on() -> None:
    held, answer = HeldRequests(), asyncio.get_running_loop().create_future()
    waiting: Any = held(CLIENT, memoryview(b"a"))
    held.release(lambda *_: answer)
    answer.set_result((b"A",))
    assert await waiting == (b"A",)


@run_with(real_time)
async def test_a_failure_reaches_the_connection_that_waits() -> None:
    def fail(_: ConnectionInfo, __: memoryview) -> Any:
        raise WireError("garbage")

    held = HeldRequests()
    waiting: Any = held(CLIENT, memoryview(b"a"))
    held.release(fail)
    with pytest.raises(WireError, match="garbage"):
        await waiting


@run_with(real_time)
async def test_a_lost_connection_is_not_answered() -> None:
    held = HeldRequests()
    waiting: Any = held(CLIENT, memoryview(b"a"))
    waiting.cancel()
    seen: list[bytes] = []
    held.release(lambda _, frame: seen.append(bytes(frame)))
    assert seen == []


def test_early_requests_are_answered_in_order_before_later_ones(node: SimNode) -> None:
    node.create_topic("t")
    records = [batch(b"first"), batch(b"second"), batch(b"third")]
    frames = [
        memoryview(
            pack_request(RequestHeader(int(ApiKey.PRODUCE), 9, 1, "c", 0), encode_request(produce_body("t", each)))
        )[4:]
        for each in records
    ]

    async def main() -> None:
        held = HeldRequests()
        early = [held(CLIENT, each) for each in frames[:2]]
        held.release(Dispatcher(node.context, TABLE))
        # No turn of the loop lies between: a frame that was read already comes behind those that waited.
        held(CLIENT, frames[2])
        for answer in early:
            assert isinstance(answer, asyncio.Future)
            assert await answer

    node.run(main())
    assert node.values("t") == [b"first", b"second", b"third"]
