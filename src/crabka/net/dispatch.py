"""What connections and dispatchers have in common: who the peer is, a frame, and its answer now or later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from crabka.ports import Payload
from crabka.security.principal import ANONYMOUS, Principal

Response = Sequence[Payload] | None


def no_mute(_duration_ms: int) -> None:
    """Stands for the mute of a connection that is gone, or that has no socket."""


@dataclass(slots=True, eq=False)
class ConnectionInfo:
    """What the dispatcher may know about a connection, and remember with it."""

    connection_id: int
    listener: str
    peer_host: str
    peer_port: int
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    principal: Principal = ANONYMOUS
    # Handles no more requests for so many milliseconds; answers are sent (KIP-219).
    mute: Callable[[int], None] = no_mute

    def __str__(self) -> str:
        return f"{self.peer_host}:{self.peer_port}"


# A frame belongs to the dispatcher until it returns or, if it returned a future, until that is done.
# A plain future is cancelled when its connection is lost, so that a long poll ends; a Task runs on to its end.
Dispatch = Callable[[ConnectionInfo, memoryview], "Response | asyncio.Future[Response]"]


class Gate(Protocol):
    """A dispatcher of one connection that stands before the dispatcher of its server, until it opens itself."""

    def __call__(self, info: ConnectionInfo, frame: memoryview, /) -> Response | asyncio.Future[Response]:
        """Answer a frame, or pass it on."""
        ...

    def redirect(self, dispatch: Dispatch) -> None:
        """Pass frames on to another dispatcher from now on."""
        ...
