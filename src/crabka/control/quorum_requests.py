"""Requests that concern the quorum itself: its own rules answer them, whoever is active."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def ask_quorum(context: ControlContext, request: Request) -> Awaitable[Any]:
    """Return a future of the response's body; cancelling it forgets a request that waits."""
    return context.quorum.handle(
        ApiKey(request.api_key), request.version, request.body, listener=request.connection.listener
    )
