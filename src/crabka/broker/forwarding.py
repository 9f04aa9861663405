"""Requests of clients that only the active controller can answer, sent on to it as they came (Envelope, KIP-590).

The answer travels back as bytes: neither is decoded here. Without an authorizer every client is the anonymous user.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import OperationError, WireError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence

    from crabka.broker.controller_channel import ControllerChannel
    from crabka.net.connection import ConnectionInfo
    from crabka.ports import Payload
    from crabka.protocol.apis import MessageTypes

    Frame = Sequence[Payload]

# DefaultPrincipalData, version 0: type "User", name "ANONYMOUS", no token, no tagged fields.
ANONYMOUS: Final = b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"
_UNKNOWN_HOST: Final = b"\x00\x00\x00\x00"


class Forwarder:
    """Sends frames to the active controller; on its own node they are simply handed over."""

    def __init__(
        self, channel: ControllerChannel, spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]]
    ) -> None:
        self._channel = channel
        self._spawn = spawn

    def __call__(self, connection: ConnectionInfo, frame: memoryview) -> Frame | asyncio.Future[Frame | None] | None:
        """Answer a frame. Raises WireError if the connection must be closed."""
        local = self._channel.local
        if local is not None and local.is_active:
            return local.dispatcher(connection, frame)
        return self._spawn(self._forward(connection, bytes(frame)))

    async def _forward(self, connection: ConnectionInfo, request: bytes) -> Frame:
        host = _packed_address(connection.peer_host)

        def build(types: MessageTypes) -> Any:
            return types.message(request_data=request, request_principal=ANONYMOUS, client_host_address=host)

        try:
            answer = await self._channel.request(ApiKey.ENVELOPE, build)
        except OperationError as error:
            # Whatever the client asked for may have happened: a lost connection says just that.
            raise WireError(f"a request could not be forwarded: {error}") from error
        if answer.error_code is not ErrorCode.none or answer.response_data is None:
            raise WireError(f"the controller refused a forwarded request: {answer.error_code.name}")
        response = bytes(answer.response_data)
        return (len(response).to_bytes(4, "big"), response)


def _packed_address(host: str) -> bytes:
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _UNKNOWN_HOST
