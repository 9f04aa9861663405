"""BeginQuorumEpoch (53): a new leader of the metadata quorum tells of itself (KIP-595)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.control.quorum_requests import ask_quorum

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def handle(context: ControlContext, request: Request) -> Awaitable[Any]:
    """Follow the leader, unless a newer one is known."""
    return ask_quorum(context, request)
