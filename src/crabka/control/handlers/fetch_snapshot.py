"""FetchSnapshot (59): snapshots of the metadata log, piece by piece (KIP-630)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.control.quorum_requests import ask_quorum

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def handle(context: ControlContext, request: Request) -> Awaitable[Any]:
    """Answer with a piece of a snapshot."""
    return ask_quorum(context, request)
