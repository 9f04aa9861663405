"""Answers of a dispatcher that are changed, held back or thrown away before they reach the connection.

An answer is there at once or comes with a future. A changed answer keeps the rules of `net.connection`: when its
connection is lost its future is cancelled, and with it the one that it waits for, unless that is a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import encode_response, read_response
from crabka.protocol.headers import pack_response, parse_response_header

if TYPE_CHECKING:
    from crabka.net.dispatch import Response
    from crabka.ports import Payload
    from crabka.protocol.headers import RequestHeader

    Answer = Response | asyncio.Future[Response]

_LENGTH_BYTES = 4


def when_answered(answer: Answer, change: Callable[[Response], Response]) -> Answer:
    """Return an answer that is changed as soon as it is there."""
    if not isinstance(answer, asyncio.Future):
        return change(answer)
    changed: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def finish(done: asyncio.Future[Response]) -> None:
        if done.cancelled():
            changed.cancel()
        elif (error := done.exception()) is not None:
            if not changed.done():
                changed.set_exception(error)
        else:
            # Also if the connection is lost: what the change reports has happened.
            response = change(done.result())
            if not changed.done():
                changed.set_result(response)

    answer.add_done_callback(finish)
    _cancel_with(changed, answer)
    return changed


def held_back(answer: Answer, seconds: float) -> Answer:
    """Return an answer that comes later by some seconds of the loop's time."""
    if answer is None:
        return None
    loop = asyncio.get_running_loop()
    held: asyncio.Future[Response] = loop.create_future()

    def release(response: Response) -> None:
        if not held.done():
            held.set_result(response)

    def hold(response: Response) -> Response:
        timer = loop.call_later(seconds, release, response)
        held.add_done_callback(lambda _: timer.cancel())
        return response

    first = when_answered(answer, hold)
    if isinstance(first, asyncio.Future):
        first.add_done_callback(lambda done: _pass_failure(done, held))
        _cancel_with(held, first)
    return held


def _pass_failure(done: asyncio.Future[Response], held: asyncio.Future[Response]) -> None:
    if held.done():
        return
    if done.cancelled():
        held.cancel()
    elif (error := done.exception()) is not None:
        held.set_exception(error)


def _cancel_with(outer: asyncio.Future[Response], inner: asyncio.Future[Response]) -> None:
    if not isinstance(inner, asyncio.Task):
        outer.add_done_callback(lambda done: inner.cancel() if done.cancelled() else None)


def read_answer(header: RequestHeader, response: Sequence[Payload]) -> Any:
    """Return the message in an answer. Parts of files are read; only faults pay for that."""
    data = b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in response)
    frame = memoryview(data)[_LENGTH_BYTES:]
    _, offset = parse_response_header(frame, header.api_key, header.api_version)
    return read_response(header.api_key, header.api_version, frame, offset)


def pack_answer(header: RequestHeader, message: Any) -> Sequence[Payload]:
    """Return the answer to a request."""
    body = encode_response(message)
    return (pack_response(header.api_key, header.api_version, header.correlation_id, body),)
