"""Turns a request frame into its answer: header, version check, decoding, handler, encoding.

Synchronous handlers are called directly and their answer is written at once; a returned future is dropped when its
connection is lost. Asynchronous handlers run as tasks of the node. APIs that the table lists as forwarded are passed on
as frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from crabka.errors import InvariantError, OperationError, drop_tracebacks, require
from crabka.protocol.apis import encode_response, read_request
from crabka.protocol.headers import (
    UnsupportedApiError,
    pack_response,
    pack_unsupported_api_versions,
    parse_request_header,
)
from crabka.serving.request import EncodedAnswer, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.net.dispatch import ConnectionInfo
    from crabka.ports import Payload, Spawn
    from crabka.serving.api_table import ApiTable, Handler

    Frame = Sequence[Payload]
    Answer = Frame | asyncio.Future[Frame | None] | None
    Forward = Callable[[ConnectionInfo, memoryview], Answer]
    Refuse = Callable[[Request, OperationError], Any]
    Load = Callable[[int], Handler]


# Half the price of a NamedTuple's own constructor.
_new = tuple.__new__


class RequestCounts(Protocol):
    """Counters of a role."""

    # By API key.
    requests: list[int]


class ServingContext(Protocol):
    """The part of the handlers' context that dispatch uses."""

    @property
    def metrics(self) -> RequestCounts:
        """Count requests here."""

    @property
    def spawn(self) -> Spawn:
        """Run a coroutine as a task of the node."""

    @property
    def on_broken_invariant(self) -> Callable[[InvariantError], None]:
        """End the node."""


class Dispatcher:
    """Answers the frames of one role of a node."""

    def __init__(
        self,
        context: ServingContext,
        table: ApiTable,
        *,
        forward: Forward | None = None,
        refuse: Refuse | None = None,
        load: Load | None = None,
    ) -> None:
        """`load` is how a handler is loaded where that is not the table's own way."""
        self._context = context
        self._table = table
        self._specs = table.specs.get
        self._forward = forward
        # Makes the response of an error that a handler raised for its whole request.
        self._refuse = refuse
        self._load = table.load if load is None else load
        self._handlers: dict[int, Handler] = {}
        self._requests = context.metrics.requests

    def __call__(self, connection: ConnectionInfo, frame: memoryview) -> Answer:
        """Answer one frame. Raises WireError if the connection must be closed."""
        try:
            header = parse_request_header(frame, self._specs)
        except UnsupportedApiError as error:
            if error.is_api_versions:
                return (pack_unsupported_api_versions(error.correlation_id),)
            raise
        api_key, version = header.api_key, header.api_version
        handler = self._handlers.get(api_key)
        if handler is None:
            if api_key in self._table.forwarded:
                return self._pass_to_controller(api_key, connection, frame)
            handler = self._handlers[api_key] = self._load(api_key)
        self._requests[api_key] += 1
        if handler.read is None:
            body = read_request(api_key, version, frame, header.body_offset)
        else:
            body = handler.read(version, frame, header.body_offset)
        request = _new(Request, (api_key, version, header.correlation_id, header.client_id, body, connection))
        if handler.is_async:
            return self._context.spawn(self._finish(handler, request))
        try:
            answer: Any = handler.handle(self._context, request)
        except InvariantError as error:
            self._context.on_broken_invariant(error)
            raise
        except OperationError as error:
            answer = self._refusal(request, error)
        if handler.packs_frames:
            return answer  # type: ignore[no-any-return] # such handlers return whole frames
        if isinstance(answer, asyncio.Future):
            return _frame_later(request, answer)
        return _frame(api_key, version, header.correlation_id, answer)

    def _refusal(self, request: Request, error: OperationError) -> Any:
        if self._refuse is None:
            raise error
        drop_tracebacks(error)
        return self._refuse(request, error)

    def _pass_to_controller(self, api_key: int, connection: ConnectionInfo, frame: memoryview) -> Answer:
        require(self._forward is not None, f"API {api_key} is forwarded, but there is no forwarder")
        self._requests[api_key] += 1
        assert self._forward is not None  # noqa: S101 - for the type checker
        return self._forward(connection, frame)

    async def _finish(self, handler: Handler, request: Request) -> Frame:
        try:
            answer = await handler.handle(self._context, request)
        except OperationError as error:
            answer = self._refusal(request, error)
        return _frame(request.api_key, request.version, request.correlation_id, answer)


def _frame(api_key: int, version: int, correlation_id: int, entity: Any) -> Frame:
    body = entity.data if type(entity) is EncodedAnswer else encode_response(entity)
    return (pack_response(api_key, version, correlation_id, body),)


def _frame_later(request: Request, entity: asyncio.Future[Any]) -> asyncio.Future[Frame | None]:
    """Return the frame of a future entity; cancelling the frame cancels the entity."""
    frame: asyncio.Future[Frame | None] = asyncio.get_running_loop().create_future()

    def answer(done: asyncio.Future[Any]) -> None:
        if frame.done():
            return
        if done.cancelled():
            frame.cancel()
        elif (error := done.exception()) is not None:
            frame.set_exception(error)
        else:
            frame.set_result(_frame(request.api_key, request.version, request.correlation_id, done.result()))

    entity.add_done_callback(answer)
    frame.add_done_callback(lambda done: entity.cancel() if done.cancelled() else None)
    return frame
