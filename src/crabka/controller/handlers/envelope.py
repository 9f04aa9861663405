"""Envelope (58): a request of a client that a broker forwards, and its answer (KIP-590).

Header and body of both travel as bytes. An answer that another controller must give is an error of the envelope, so
that the broker finds that controller; all other errors are those of the answer.
"""

from __future__ import annotations

import dataclasses
from inspect import isawaitable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from crabka.controller.api_table import TABLE
from crabka.errors import OperationError, WireError
from crabka.protocol.apis import encode_response, read_request, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import pack_response, parse_request_header
from crabka.security.principal import ANONYMOUS, unpack_principal
from crabka.serving.api_table import FORWARDABLE
from crabka.serving.refusals import refuse
from crabka.serving.request import Request

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.net.dispatch import ConnectionInfo

_ADDRESS_LENGTHS = (4, 16)
_LENGTH_BYTES = 4


async def handle(context: ControllerContext, request: Request) -> Any:
    """Answer the request inside."""
    types = response_types(request.api_key, request.version)
    try:
        data = await _answer(context, request)
    except OperationError as error:
        return types.message(response_data=None, error_code=error.error_code)
    return types.message(response_data=data, error_code=ErrorCode.none)


async def _answer(context: ControllerContext, envelope: Request) -> bytes:
    if len(envelope.body.client_host_address) not in _ADDRESS_LENGTHS:
        raise OperationError(ErrorCode.invalid_request, "Failed to parse client address from envelope")
    request = _unwrap(envelope, _client_of(envelope))
    if request.api_key not in FORWARDABLE:
        raise OperationError(ErrorCode.invalid_request, f"API {request.api_key} is not eligible for forwarding")
    try:
        answer = context.load(request.api_key).handle(context, request)
        entity = await answer if isawaitable(answer) else answer
    except OperationError as error:
        if error.error_code is ErrorCode.not_controller:
            raise
        entity = refuse(request, error)
    frame = pack_response(request.api_key, request.version, request.correlation_id, encode_response(entity))
    return frame[_LENGTH_BYTES:]


def _client_of(envelope: Request) -> ConnectionInfo:
    """Return the connection of the client as its broker describes it."""
    connection = envelope.connection
    packed = envelope.body.request_principal
    principal = ANONYMOUS
    if packed:
        try:
            principal = unpack_principal(bytes(packed))
        except WireError as error:
            raise OperationError(ErrorCode.principal_deserialization_failure, str(error)) from error
    host = str(ip_address(bytes(envelope.body.client_host_address)))
    return dataclasses.replace(connection, peer_host=host, peer_port=0, principal=principal)


def _unwrap(envelope: Request, client: ConnectionInfo) -> Request:
    data = memoryview(envelope.body.request_data)
    try:
        header = parse_request_header(data, TABLE.specs.get)
        body = read_request(header.api_key, header.api_version, data, header.body_offset)
    except WireError as error:
        # Kafka's code for an unreadable request, which differs from that of a malformed envelope.
        raise OperationError(ErrorCode.unsupported_version, f"Failed to parse forwarded request: {error}") from error
    return Request(header.api_key, header.api_version, header.correlation_id, header.client_id, body, client)
