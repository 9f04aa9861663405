"""One connection to a broker: pipelined requests, responses in order, versions negotiated at the start.

Knows nothing of clusters or retries: any error closes the connection and fails every request on it. Kafka's order is
TLS, ApiVersions (KIP-511), then SASL (KIP-43). If the broker limits sessions, the client authenticates again between
two requests before the session ends (KIP-368); if it is late, the broker closes the connection (SessionEndedError).
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import crabka
from crabka.clients.cluster.response_buffer import ResponseBuffer, ResponseLengthError
from crabka.clients.errors import ClientNetworkError, RequestTimeoutError, SessionEndedError, VersionMismatchError
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.clients.security.tls import tls_failure, tls_length_failure
from crabka.errors import CrabkaError, OperationError, WireError
from crabka.ports import Buffer, Network
from crabka.protocol.apis import SPECS, ApiKey, MessageTypes, encode_request, read_response, request_types
from crabka.protocol.error_codes import ErrorCode

BodyBuilder = Callable[[MessageTypes], Any]

CLIENT_SOFTWARE_NAME = "crabka"
_HEADER = struct.Struct(">ihhi")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_NO_TAGGED_FIELDS = b"\x00"
_UNSUPPORTED_VERSION = _SHORT.pack(ErrorCode.unsupported_version.value)
_CORRELATION_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Limits of one connection, and its protection."""

    client_id: str = "crabka"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    max_in_flight: int = 100
    max_response_bytes: int = 256 * 1024 * 1024
    security: ClientSecurity = UNPROTECTED


class _Pending(NamedTuple):
    """A request that waits for its response."""

    correlation_id: int
    api_key: ApiKey
    version: int
    response: asyncio.Future[Buffer]


class Connection(asyncio.BufferedProtocol):
    """An open connection; make one with `Connection.open`."""

    def __init__(self, address: str, settings: ConnectionSettings) -> None:
        self.address = address
        self._settings = settings
        self._transport: asyncio.Transport | None = None
        self._buffer = ResponseBuffer(settings.max_response_bytes)
        self._pending: deque[_Pending] = deque()
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._turn = asyncio.Lock()
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = asyncio.Event()
        self._failure: Exception | None = None
        self._next_correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        # The request after the opening, and when to authenticate again, in the time of the loop.
        self._first_correlation_id = 0
        self._renew_at: float | None = None
        self.api_versions: Any = None
        """The broker's ApiVersions response, with the features it supports and has finalized."""

    @classmethod
    async def open(
        cls, network: Network, host: str, port: int, settings: ConnectionSettings | None = None
    ) -> Connection:
        """Connect, negotiate versions and authenticate.

        Raises ClientNetworkError when the broker cannot be reached, WireError when it does not speak Kafka, and
        AuthenticationError when one side refuses the other.
        """
        settings = settings or ConnectionSettings()
        connection = cls(f"{host}:{port}", settings)
        try:
            async with asyncio.timeout(settings.connect_timeout_ms / 1000):
                await network.connect(lambda: connection, host, port, tls=settings.security.tls)
                await connection._negotiate()
                await connection._authenticate()
        except (OSError, TimeoutError) as error:
            connection._give_up()
            raise connection._told(error) from error
        except BaseException:
            connection._give_up()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """False once the connection is closed or lost."""
        return self._transport is not None and self._failure is None

    @property
    def in_flight_count(self) -> int:
        """How many requests wait for their response."""
        return len(self._pending)

    def supports(self, api_key: ApiKey) -> bool:
        """Return whether broker and client share a version of the API."""
        return self._shared_versions(api_key) is not None

    def version_of(self, api_key: ApiKey, max_version: int | None = None) -> int:
        """Return the highest version that both sides support, at most `max_version`.

        Raises VersionMismatchError when there is none.
        """
        shared = self._shared_versions(api_key)
        if shared is None or (max_version is not None and max_version < shared[0]):
            raise VersionMismatchError(f"{self.address} offers no version of {api_key.name} that this client supports")
        return shared[1] if max_version is None else min(shared[1], max_version)

    async def request(
        self, api_key: ApiKey, build: BodyBuilder, timeout_ms: int | None = None, *, max_version: int | None = None
    ) -> Any:
        """Send a request and return the decoded response.

        `build` receives the classes of the agreed version and returns the body. A request without an answer in time
        closes the connection: the broker would answer all later requests late as well.
        Raises RequestTimeoutError, ClientNetworkError, VersionMismatchError, WireError.
        """
        version = self.version_of(api_key, max_version)
        return await self._exchange(api_key, version, build(request_types(api_key, version)), timeout_ms)

    async def send_without_response(
        self, api_key: ApiKey, build: BodyBuilder, *, max_version: int | None = None
    ) -> None:
        """Send a request that the broker does not answer: Produce with acks=0."""
        version = self.version_of(api_key, max_version)
        body = build(request_types(api_key, version))
        await self._write_in_turn(api_key, version, body, expects_response=False)

    def post(self, api_key: ApiKey, version: int, body: bytes) -> asyncio.Future[Buffer]:
        """Send an encoded request at once and return the future of its response, the whole frame.

        For callers that encode and decode by hand, with one request in flight at a time: it does not wait for the
        socket and has no timeout. `response_offset` returns where the body begins. Raises ClientNetworkError.
        """
        return self._write(api_key, version, body, expects_response=True)

    @property
    def must_renew(self) -> bool:
        """Whether the session ends soon; who sends with `post` calls `renew` then."""
        return self._renew_at is not None and asyncio.get_running_loop().time() >= self._renew_at

    async def renew(self) -> None:
        """Authenticate again if the session ends soon. Raises what `request` raises."""
        async with self._turn:
            if self.must_renew:
                await self._renew_session()

    async def ask(self, api_key: ApiKey, build: BodyBuilder) -> Any:
        """Send a request past those that wait and return the decoded response: for authentication alone.

        Raises ClientNetworkError, VersionMismatchError, WireError.
        """
        version = self.version_of(api_key)
        body = build(request_types(api_key, version))
        frame = await self._write(api_key, version, encode_request(body), expects_response=True)
        return self._decode(api_key, version, frame)

    def close(self) -> None:
        """Close; requests in flight fail with ClientNetworkError. Closing twice is allowed."""
        self._fail(ClientNetworkError(f"the connection to {self.address} was closed"))

    async def wait_closed(self) -> None:
        """Return once the transport is closed."""
        if self._transport is not None:
            await self._closed.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport  # type: ignore[assignment] # stream connections have read-write transports

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Called by the loop: return the buffer for the next bytes."""
        return self._buffer.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop: pass responses to the requests, oldest first."""
        try:
            for frame in self._buffer.received(nbytes):
                self._deliver(frame)
        except ResponseLengthError as error:
            self._fail(tls_length_failure(self.address, error.length) or error)
        except WireError as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if isinstance(exc, ssl.SSLError) and not isinstance(exc, ssl.SSLEOFError):
            # With TLS 1.3 a broker refuses the client's certificate after the handshake.
            self._fail(self._told(exc))
        else:
            said = f": {exc}" if exc else ""
            is_late = self._renew_at is not None and asyncio.get_running_loop().time() >= self._renew_at
            failure = SessionEndedError if is_late else ClientNetworkError
            self._fail(failure(f"{self.address} closed the connection{self._hint()}{said}"))
        self._closed.set()

    def pause_writing(self) -> None:
        """Called by the loop: requests wait until the socket has taken what was written."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._writable.set()

    async def _exchange(self, api_key: ApiKey, version: int, body: Any, timeout_ms: int | None) -> Any:
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        async with self._slots:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    frame = await (await self._write_in_turn(api_key, version, body))
            except TimeoutError as error:
                failure = RequestTimeoutError(f"{self.address} did not answer {api_key.name} in {timeout_ms} ms")
                self._fail(failure)
                raise failure from error
        return self._decode(api_key, version, frame)

    def _decode(self, api_key: ApiKey, version: int, frame: Buffer) -> Any:
        try:
            return _decode_response(api_key, version, frame)
        except WireError as error:
            self._fail(error)
            raise

    async def _write_in_turn(
        self, api_key: ApiKey, version: int, body: Any, *, expects_response: bool = True
    ) -> asyncio.Future[Buffer]:
        # The lock is fair: requests leave in the order of the calls even after the socket was full.
        async with self._turn:
            await self._writable.wait()
            if self.must_renew:
                await self._renew_session()
            return self._write(api_key, version, encode_request(body), expects_response=expects_response)

    def _write(
        self, api_key: ApiKey, version: int, payload: bytes, *, expects_response: bool
    ) -> asyncio.Future[Buffer]:
        if self._failure is not None:
            raise self._failure
        if self._transport is None:
            raise ClientNetworkError(f"not connected to {self.address}")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _CORRELATION_MASK
        response: asyncio.Future[Buffer] = asyncio.get_running_loop().create_future()
        if expects_response:
            self._pending.append(_Pending(correlation_id, api_key, version, response))
        client_id = self._settings.client_id.encode()
        tail = _NO_TAGGED_FIELDS if SPECS[api_key].is_flexible(version) else b""
        size = _HEADER.size - _INT.size + _SHORT.size + len(client_id) + len(tail) + len(payload)
        head = _HEADER.pack(size, api_key, version, correlation_id) + _SHORT.pack(len(client_id)) + client_id + tail
        self._transport.writelines((head, payload))
        return response

    def _deliver(self, frame: Buffer) -> None:
        if len(frame) < _INT.size or not self._pending:
            raise WireError(f"{self.address} sent a response without a request")
        (correlation_id,) = _INT.unpack_from(frame)
        pending = self._pending[0]
        if correlation_id != pending.correlation_id:
            raise WireError(f"{self.address} answered {correlation_id}, expected {pending.correlation_id}")
        self._pending.popleft()
        # The caller may have been cancelled meanwhile; its response is then dropped.
        if not pending.response.done():
            pending.response.set_result(frame)

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        ends_at_once = self._settings.security.tls is not None and bool(self._pending)
        while self._pending:
            response = self._pending.popleft().response
            if not response.done():
                response.set_exception(self._failure)
        self._writable.set()
        if self._transport is not None and not self._transport.is_closing():
            if ends_at_once:
                # An orderly end of TLS 1.3 waits for an answer of the broker, which Kafka does not send while a request
                # is in flight.
                self._transport.abort()
            else:
                self._transport.close()

    def _give_up(self) -> None:
        """Close a connection that did not open, without an orderly end of TLS, which takes time."""
        self.close()
        if self._transport is not None and self._settings.security.tls is not None:
            self._transport.abort()

    async def _authenticate(self) -> None:
        sasl = self._settings.security.sasl
        if sasl is not None:
            after_ms = await sasl.authenticate(self)
            self._renew_at = None if after_ms is None else asyncio.get_running_loop().time() + after_ms / 1000
        self._first_correlation_id = self._next_correlation_id

    async def _renew_session(self) -> None:
        """Authenticate again; the caller holds the lock, since the broker accepts no other request meanwhile."""
        timeout_ms = self._settings.request_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._authenticate()
        except TimeoutError as error:
            failure = RequestTimeoutError(f"{self.address} did not authenticate this client again in {timeout_ms} ms")
            self._fail(failure)
            raise failure from error
        except CrabkaError as error:
            self._fail(error)
            raise
        except BaseException:
            self._fail(ClientNetworkError(f"authenticating again at {self.address} was interrupted"))
            raise

    def _told(self, error: OSError) -> CrabkaError:
        """Return the exception for a failure of the network or of TLS."""
        if self._settings.security.tls is not None and (reason := tls_failure(self.address, error)) is not None:
            return reason
        return ClientNetworkError(f"cannot connect to {self.address}: {str(error) or type(error).__name__}")

    def _hint(self) -> str:
        """Return why a broker may have closed a connection without an answer: it expects more protection."""
        security = self._settings.security
        waiting = self._pending[0].correlation_id if self._pending else None
        if waiting == 0:
            if security.tls is None:
                return " without an answer; if its listener expects TLS, set security.protocol to SSL or SASL_SSL"
            wanted = "if it wants a certificate of the client, set ssl.keystore.location to one that it trusts"
            return f" without an answer; {wanted}"
        if security.sasl is None and self._versions and waiting == self._first_correlation_id:
            protocol = "SASL_PLAINTEXT" if security.tls is None else "SASL_SSL"
            return f" without an answer; if its listener expects SASL, set security.protocol to {protocol}"
        return ""

    async def _negotiate(self) -> None:
        version = SPECS[ApiKey.API_VERSIONS].max_version
        response = await self._ask_versions(version)
        if response.error_code is ErrorCode.unsupported_version:
            offered = {entry.api_key: entry.max_version for entry in response.api_keys}
            response = await self._ask_versions(min(offered.get(ApiKey.API_VERSIONS, 0), version))
        if response.error_code is not ErrorCode.none:
            raise OperationError(response.error_code, f"{self.address} refused ApiVersions")
        self._versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        self.api_versions = response

    async def _ask_versions(self, version: int) -> Any:
        body = request_types(ApiKey.API_VERSIONS, version).message(
            client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=crabka.__version__
        )
        return await self._exchange(ApiKey.API_VERSIONS, version, body, None)

    def _shared_versions(self, api_key: ApiKey) -> tuple[int, int] | None:
        spec = SPECS[api_key]
        low, high = self._versions.get(api_key, (0, -1))
        low, high = max(low, spec.min_version), min(high, spec.max_version)
        return (low, high) if low <= high else None


def response_offset(api_key: ApiKey, version: int, frame: Buffer) -> int:
    """Return where the body of a response begins. Raises WireError."""
    offset = _INT.size
    if SPECS[api_key].response_header_flexible(version):
        # Kafka defines no tagged field for response headers: the section is one zero byte.
        if frame[offset : offset + 1] != _NO_TAGGED_FIELDS:
            raise WireError("the response header has unknown tagged fields")
        offset += 1
    return offset


def _decode_response(api_key: ApiKey, version: int, frame: Buffer) -> Any:
    offset = response_offset(api_key, version, frame)
    if api_key is ApiKey.API_VERSIONS and frame[offset : offset + 2] == _UNSUPPORTED_VERSION:
        # A broker that does not know our version answers in version 0 (KIP-511).
        version = 0
    return read_response(api_key, version, frame, offset)
