"""A broker that answers as a test tells it: one function per API, over any network port."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from crabka.clients.cluster.response_buffer import ResponseBuffer
from crabka.ports import Listener, Network
from crabka.protocol.apis import SPECS, ApiKey, MessageTypes, encode_response, read_request, response_types
from crabka.protocol.error_codes import ErrorCode


class DisconnectError(Exception):
    """Raised by an answer function: cut the connection instead of answering."""


class SilentlyIgnored:
    """Returned by an answer function: never answer."""


NO_ANSWER = SilentlyIgnored()


class Later(NamedTuple):
    """Returned by an answer function: answer after a while, as a long poll does."""

    delay_ms: int
    answer: Any


class ReceivedRequest(NamedTuple):
    """A request as it came."""

    api_key: ApiKey
    version: int
    client_id: str
    body: Any
    types: MessageTypes


Answer = Callable[[ReceivedRequest], Any]


class ScriptedBroker:
    """Listens, records what it is asked, and answers with what its functions return."""

    def __init__(self, versions: dict[ApiKey, tuple[int, int]] | None = None) -> None:
        self.versions = versions or {ApiKey(key): (spec.min_version, spec.max_version) for key, spec in SPECS.items()}
        self.answers: dict[ApiKey, Answer] = {ApiKey.API_VERSIONS: self._api_versions}
        self.requests: list[ReceivedRequest] = []
        self.connections: set[ServerSide] = set()
        self.connection_count = 0
        self._listener: Listener | None = None

    async def listen(self, network: Network, host: str, port: int = 0) -> int:
        """Start; return the port."""
        self._listener = await network.listen(lambda: ServerSide(self), host, port)
        return self._listener.port

    def close(self) -> None:
        """Stop listening and cut all connections."""
        if self._listener is not None:
            self._listener.close()
        self.cut_connections()

    def cut_connections(self) -> None:
        """Cut what is connected now."""
        for connection in list(self.connections):
            connection.transport.close()

    def asked(self, api_key: ApiKey) -> list[ReceivedRequest]:
        """Return the requests of one API so far."""
        return [request for request in self.requests if request.api_key is api_key]

    def _api_versions(self, request: ReceivedRequest) -> Any:
        types = request.types
        keys = [
            types.new("ApiVersion", api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return types.message(error_code=ErrorCode.none, api_keys=keys, throttle_time=0)


class ServerSide(asyncio.Protocol):
    """One connection, seen from the broker."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._buffer = ResponseBuffer(1 << 30)
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._broker.connections.add(self)
        self._broker.connection_count += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._broker.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        for frame in self._buffer.feed(data):
            if not self.transport.is_closing():
                self._answer(bytes(frame))

    def _answer(self, frame: bytes) -> None:
        key, version, correlation_id, client_size = struct.unpack_from(">hhih", frame)
        api_key = ApiKey(key)
        client_id = frame[10 : 10 + client_size].decode()
        if api_key is ApiKey.API_VERSIONS and version > self._broker.versions[api_key][1]:
            return self._refuse_version(correlation_id)
        offset = 10 + client_size + SPECS[api_key].is_flexible(version)
        body = read_request(api_key, version, frame, offset)
        request = ReceivedRequest(api_key, version, client_id, body, response_types(api_key, version))
        self._broker.requests.append(request)
        try:
            answer = self._broker.answers[api_key](request)
        except DisconnectError:
            self.transport.close()
            return None
        if answer is not NO_ANSWER:
            delay_ms, answer = answer if isinstance(answer, Later) else (0, answer)
            tags = b"\x00" if SPECS[api_key].response_header_flexible(version) else b""
            response = struct.pack(">i", correlation_id) + tags + encode_response(answer)
            if delay_ms:
                asyncio.get_running_loop().call_later(delay_ms / 1000, self.send_frame, response)
            else:
                self.send_frame(response)
        return None

    def _refuse_version(self, correlation_id: int) -> None:
        """Answer in version 0 with the range of ApiVersions alone, as KIP-511 says."""
        types = response_types(ApiKey.API_VERSIONS, 0)
        low, high = self._broker.versions[ApiKey.API_VERSIONS]
        entry = types.new("ApiVersion", api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)
        answer = types.message(error_code=ErrorCode.unsupported_version, api_keys=[entry])
        self.send_frame(struct.pack(">i", correlation_id) + encode_response(answer))

    def send_frame(self, frame: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(struct.pack(">i", len(frame)) + frame)
