"""Requests of clients that only the active controller can answer, sent on to it as they came (Envelope, KIP-590).

The answer travels back as bytes: neither is decoded here, unless there is no answer and the client must get an error in
the form of its request.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from crabka.clients.errors import VersionMismatchError
from crabka.errors import OperationError, WireError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.principal import pack_principal
from crabka.serving.refusals import refuse_frame

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from crabka.broker.controller_link.channel import ControllerChannel
    from crabka.net.dispatch import ConnectionInfo
    from crabka.ports import Payload, Spawn
    from crabka.protocol.apis import MessageTypes

    Frame = Sequence[Payload]

logger = logging.getLogger(__name__)

_UNKNOWN_HOST: Final = b"\x00\x00\x00\x00"


class Forwarder:
    """Sends frames to the active controller; on its own node they are simply handed over."""

    def __init__(self, channel: ControllerChannel, spawn: Spawn) -> None:
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
        principal = pack_principal(connection.principal)

        def build(types: MessageTypes) -> Any:
            return types.message(request_data=request, request_principal=principal, client_host_address=host)

        try:
            answer = await self._channel.request(ApiKey.ENVELOPE, build)
        except OperationError as error:
            return (refuse_frame(memoryview(request), connection, error),)
        except VersionMismatchError as error:
            return self._answer_for_controller(connection, request, str(error))
        if answer.error_code is ErrorCode.unsupported_version:
            # The client knows versions of a controller that led before: it asks anew after it has connected anew.
            raise WireError("the active controller does not know the version of a forwarded request")
        if answer.error_code is not ErrorCode.none or answer.response_data is None:
            return self._answer_for_controller(connection, request, answer.error_code.name)
        response = bytes(answer.response_data)
        return (len(response).to_bytes(4, "big"), response)

    def _answer_for_controller(self, connection: ConnectionInfo, request: bytes, reason: str) -> Frame:
        """Log a fault between the nodes, which a client would not expect by its own name."""
        logger.warning("The controller cannot take forwarded requests: %s", reason)
        error = OperationError(ErrorCode.unknown_server_error)
        return (refuse_frame(memoryview(request), connection, error),)


def _packed_address(host: str) -> bytes:
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _UNKNOWN_HOST
