"""Frames of log-ins over a socket of their own, and what a broker answers to them, in a form that can be compared."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Any

from crabka.protocol.apis import ApiKey, encode_request
from crabka.protocol.headers import RequestHeader, pack_request
from tests.support.nodes.sim_node import build

CLOSED = "closed"
_TIMEOUT_S = 60
_LENGTH_BYTES = 4


def framed(data: bytes) -> bytes:
    """Return raw bytes as a frame."""
    return len(data).to_bytes(_LENGTH_BYTES) + data


def request(api_key: ApiKey, version: int, **fields: Any) -> bytes:
    """Return the frame of a request."""
    header = RequestHeader(int(api_key), version, 7, "talk", 0)
    return pack_request(header, encode_request(build(api_key, version, **fields)))


def versions(version: int = 3) -> bytes:
    """Return ApiVersions; the broker need not know the version."""
    frame = request(ApiKey.API_VERSIONS, 3, client_software_name="talk", client_software_version="1")
    return frame[:6] + version.to_bytes(2) + frame[8:]


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    """Return SaslHandshake."""
    return request(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


def authenticate(token: bytes, version: int = 2) -> bytes:
    """Return SaslAuthenticate."""
    return request(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)


def talk(address: str, frames: Sequence[bytes]) -> list[bytes | str]:
    """Send frames one after the other; return the answers, CLOSED in place of the first that does not come."""
    host, _, port = address.rpartition(":")
    answers: list[bytes | str] = []
    with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as connection:
        for frame in frames:
            with contextlib.suppress(ConnectionError):
                connection.sendall(frame)
            answer = _answer(connection)
            answers.append(CLOSED if answer is None else answer)
            if answer is None:
                return answers
        return answers


def _answer(connection: socket.socket) -> bytes | None:
    try:
        head = _read(connection, _LENGTH_BYTES)
        return head + _read(connection, int.from_bytes(head))
    except (EOFError, ConnectionError):
        return None


def _read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise EOFError
        data += part
    return data
