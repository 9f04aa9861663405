"""From a frame to its answer: header, version check, decoding, the handler, encoding.

Synchronous handlers are called directly and their answer leaves in the same turn of the loop. Asynchronous ones
run as tasks of the node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabka.broker.api_table import SERVED, SERVED_SPECS, Handler, load_handler
from crabka.broker.context import Request
from crabka.errors import InvariantError
from crabka.protocol.apis import encode_response, read_request
from crabka.protocol.headers import (
    UnsupportedApiError,
    pack_response,
    pack_unsupported_api_versions,
    parse_request_header,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.net.connection import ConnectionInfo
    from crabka.ports import Buffer

    Frame = Sequence[Buffer]


class Dispatcher:
    """Answers frames of one node."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._handlers: dict[int, Handler] = {}
        self._requests = context.metrics.requests
        # Sockets are bound before the node is ready, because its registration tells their ports. Requests that come
        # in between wait here instead of being refused.
        self._gate: asyncio.Event | None = asyncio.Event()

    def open_gate(self) -> None:
        """Start to answer."""
        if self._gate is not None:
            self._gate.set()
            self._gate = None

    def __call__(self, connection: ConnectionInfo, frame: memoryview) -> Frame | asyncio.Future[Frame | None] | None:
        """Answer one frame. Raises WireError if the connection must be closed."""
        if self._gate is not None:
            return self._context.spawn(self._answer_when_open(self._gate, connection, bytes(frame)))
        try:
            header = parse_request_header(frame, SERVED_SPECS.get)
        except UnsupportedApiError as error:
            if error.is_api_versions:
                return (pack_unsupported_api_versions(error.correlation_id),)
            raise
        api_key, version = header.api_key, header.api_version
        handler = self._handlers.get(api_key)
        if handler is None:
            handler = self._handlers[api_key] = load_handler(SERVED[api_key])
        self._requests[api_key] += 1
        if handler.read is None:
            body = read_request(api_key, version, frame, header.body_offset)
        else:
            body = handler.read(version, frame, header.body_offset)
        request = Request(api_key, version, header.correlation_id, header.client_id, body, connection)
        if handler.is_async:
            return self._context.spawn(self._finish(handler, request))
        try:
            answer: Any = handler.handle(self._context, request)
        except InvariantError as error:
            self._context.on_broken_invariant(error)
            raise
        if handler.packs_frames:
            return answer  # type: ignore[no-any-return] # such handlers return whole frames
        return _frame(api_key, version, header.correlation_id, answer)

    async def _answer_when_open(self, gate: asyncio.Event, connection: ConnectionInfo, frame: bytes) -> Frame | None:
        await gate.wait()
        answer = self(connection, memoryview(frame))
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def _finish(self, handler: Handler, request: Request) -> Frame:
        answer = await handler.handle(self._context, request)
        return _frame(request.api_key, request.version, request.correlation_id, answer)


def _frame(api_key: int, version: int, correlation_id: int, entity: Any) -> Frame:
    return (pack_response(api_key, version, correlation_id, encode_response(entity)),)
