"""Vote (52): votes and pre-votes of the metadata quorum (KIP-595, KIP-996)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.control.quorum_requests import ask_quorum

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def handle(context: ControlContext, request: Request) -> Awaitable[Any]:
    """Vote as the quorum's rules say; any controller answers."""
    return ask_quorum(context, request)
