"""UpdateRaftVoter (82): a voter tells its endpoints and levels of kraft.version (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.control.quorum_requests import ask_quorum

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def handle(context: ControlContext, request: Request) -> Awaitable[Any]:
    """Take over what the voter says of itself; only the leader can."""
    return ask_quorum(context, request)
