"""Fetch (1) at a controller: the metadata log for followers and observers (KIP-595)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.control.quorum_requests import ask_quorum

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def handle(context: ControlContext, request: Request) -> Awaitable[Any]:
    """Answer with records of the metadata log; wait for them as long as the request allows."""
    return ask_quorum(context, request)
