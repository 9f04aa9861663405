"""Requests that the quorum itself answers."""

from __future__ import annotations

import asyncio

from crabka.control.quorum_requests import ask_quorum
from crabka.net.connection import ConnectionInfo
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.request import Request
from tests.support.async_tests import run_with
from tests.support.sim_controller import SimControllers, run_controllers
from tests.support.sim_node import build


@run_with(run_controllers)
async def test_the_answer_is_a_future_that_can_be_given_up(cluster: SimControllers, /) -> None:
    context = (await cluster.active()).context
    body = build(ApiKey.DESCRIBE_QUORUM, 2, topics=[])
    connection = ConnectionInfo(1, "CONTROLLER", "h", 1)
    answer = ask_quorum(context, Request(ApiKey.DESCRIBE_QUORUM, 2, 1, None, body, connection))
    assert isinstance(answer, asyncio.Future)
    assert (await answer).error_code is ErrorCode.invalid_request
