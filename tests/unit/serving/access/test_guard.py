"""How guards stand before handlers."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from crabka.errors import OperationError
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Operation
from crabka.serving.access.guard import Admission, Answered, Check, Row, guarded, guarded_load
from crabka.serving.api_table import ApiTable, Handler
from crabka.serving.request import Request

REQUEST = Request(ApiKey.HEARTBEAT, 0, 1, None, "body", ConnectionInfo(1, "L", "h", 1))
ACCESS: Any = object()


class Context:
    """Runs tasks on the loop."""

    spawn = staticmethod(asyncio.ensure_future)


def refuse(_request: Request, error: OperationError) -> Any:
    return error.error_code


def admit(_access: Any, _context: Any, request: Request) -> Admission:
    return Admission(request._replace(body="admitted"), lambda answer: f"{answer}, finished")


def deny(_access: Any, _context: Any, _request: Request) -> Answered:
    raise OperationError(ErrorCode.group_authorization_failed)


def echo(_context: Any, request: Request) -> Any:
    return request.body


async def echo_later(_context: Any, request: Request) -> Any:
    return request.body


def echo_as_future(_context: Any, request: Request) -> Any:
    return asyncio.ensure_future(echo_later(_context, request))


def handler(handle: Any, row: Row) -> Handler:
    return guarded(Handler(handle, None, packs_frames=False), row, ACCESS, refuse)


async def answers(row: Row, handle: Any) -> Any:
    answer = handler(handle, row).handle(Context, REQUEST)
    return await answer if inspect.isawaitable(answer) else answer


@pytest.mark.parametrize("handle", [echo, echo_later, echo_as_future])
def test_handlers_of_every_kind_are_asked_what_is_admitted(handle: Any) -> None:
    row = Row(guard=admit)
    assert handler(handle, row).is_async is (handle is echo_later)
    assert asyncio.run(answers(row, handle)) == "admitted, finished"


@pytest.mark.parametrize("handle", [None, echo_later])
def test_a_refused_request_does_not_reach_its_handler(handle: Any) -> None:
    assert asyncio.run(answers(Row(guard=deny), handle)) is ErrorCode.group_authorization_failed


def test_a_row_may_stand_in_place_of_the_handler_or_add_nothing() -> None:
    def instead(access: Any, _context: Any, request: Request) -> Any:
        return access, request.body

    assert handler(None, Row(handle=instead)).handle(Context, REQUEST) == (ACCESS, "body")
    assert handler(echo, Row(note="nothing")).handle(Context, REQUEST) == "body"


def test_without_an_authorizer_handlers_are_those_of_the_table() -> None:
    table = ApiTable((ApiKey.HEARTBEAT,), "crabka.broker.handlers", shared={ApiKey.HEARTBEAT: echo})
    assert guarded_load(table, {}, None, refuse)(ApiKey.HEARTBEAT).handle is echo
    rows = {ApiKey.HEARTBEAT: Row(guard=admit)}
    assert guarded_load(table, rows, ACCESS, refuse)(ApiKey.HEARTBEAT).handle is not echo


def test_checks_are_written_as_people_read_them() -> None:
    assert str(Check(Operation.READ, "Topic", "ERROR", "always")) == "READ on Topic (always): ERROR"
    assert str(Check(Operation.READ, "Topic")) == "READ on Topic"
