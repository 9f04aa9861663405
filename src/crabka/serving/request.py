"""The request that a handler answers."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from crabka.net.dispatch import ConnectionInfo

# The connection of requests that a node's own broker makes to its controller, without a socket.
OWN_CONNECTION: Final = ConnectionInfo(0, "", "local", 0)


class Request(NamedTuple):
    """One decoded request. Views into the frame (records) are valid only until the handler returns."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    # A kio entity of the request's version: its class differs per version, so handlers read it by attribute.
    body: Any
    connection: ConnectionInfo


class EncodedAnswer(NamedTuple):
    """The body of a response that a handler encoded in a thread, because it is too large to encode on the loop."""

    data: bytes
