"""Requests that reach a listener before the node can answer them.

A node binds its sockets first, because its quorum and its registration announce their ports. What comes in
between waits instead of being refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from crabka.net.dispatch import ConnectionInfo, Dispatch, Response


class _Held(NamedTuple):
    """A frame and the future of its answer."""

    connection: ConnectionInfo
    frame: bytes
    answer: asyncio.Future[Response]


class HeldRequests:
    """Holds frames until `release`, then passes them on as they come."""

    def __init__(self) -> None:
        self._dispatch: Dispatch | None = None
        self._held: list[_Held] = []

    def __call__(self, connection: ConnectionInfo, frame: memoryview) -> Response | asyncio.Future[Response]:
        """Answer a frame, or keep it."""
        if self._dispatch is not None:
            return self._dispatch(connection, frame)
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._held.append(_Held(connection, bytes(frame), answer))
        return answer

    def release(self, dispatch: Dispatch) -> None:
        """Answer what is held, in order, and everything that comes later."""
        self._dispatch = dispatch
        held, self._held = self._held, []
        for connection, frame, waiting in held:
            # Its connection may be gone.
            if not waiting.cancelled():
                _answer(dispatch, connection, frame, waiting)


def _answer(dispatch: Dispatch, connection: ConnectionInfo, frame: bytes, waiting: asyncio.Future[Response]) -> None:
    try:
        answer = dispatch(connection, memoryview(frame))
    except Exception as error:  # noqa: BLE001 - the connection waits for it as for any other failure
        waiting.set_exception(error)
        return
    if isinstance(answer, asyncio.Future):
        answer.add_done_callback(lambda done: _pass_on(done, waiting))
    else:
        waiting.set_result(answer)


def _pass_on(done: asyncio.Future[Response], waiting: asyncio.Future[Response]) -> None:
    if waiting.cancelled():
        return
    if done.cancelled():
        waiting.cancel()
    elif (error := done.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(done.result())
