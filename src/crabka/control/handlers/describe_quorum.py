"""DescribeQuorum (55): the state of the metadata quorum, told by its leader (KIP-836, KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.control.quorum_requests import ask_quorum

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabka.control.context import ControlContext
    from crabka.serving.request import Request


def handle(context: ControlContext, request: Request) -> Awaitable[Any]:
    """Describe voters and observers; others than the leader name it."""
    return ask_quorum(context, request)
