"""Requests of a broker to the active controller, wherever that is (Kafka's NodeToControllerChannelManager).

Who is active is known from the metadata quorum. On the node that is active itself no socket is involved. While no node
is active, or the one that was asked no longer is, the request is sent again until its time is up; what it asks for
must therefore be harmless when it happens twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from crabka.clients.cluster.connection import Connection, ConnectionSettings
from crabka.clients.errors import ClientNetworkError, VersionMismatchError
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.errors import CrabkaError, OperationError, WireError
from crabka.protocol.apis import SPECS, ApiKey, request_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.kraft.voters import VoterEndpoint
    from crabka.net.dispatch import Dispatch
    from crabka.ports import Runtime
    from crabka.protocol.apis import MessageTypes
    from crabka.quorum.raft.quorum import RaftQuorum
    from crabka.quorum.raft.watch import QuorumLeader

    Build = Callable[[MessageTypes], Any]

# How long to wait before asking again where nothing shows that the controller moved.
RETRY_PAUSE_MS: Final = 50
CONNECT_TIMEOUT_MS: Final = 2000


class ControllerRequests(Protocol):
    """What parts of a broker need of the channel."""

    async def request(self, api_key: ApiKey, build: Build) -> Any:
        """Ask the active controller in the newest version that both know; return the body of its answer.

        Raises OperationError (REQUEST_TIMED_OUT) when `controller.socket.timeout.ms` is over, or the broker stops.
        """
        ...


class LocalController(Protocol):
    """The controller of this node, if it has that role."""

    @property
    def is_active(self) -> bool:
        """Whether it is the active one."""

    async def answer(self, api_key: ApiKey, version: int, body: Any) -> Any:
        """Answer a request of the node's own broker."""

    @property
    def dispatcher(self) -> Dispatch:
        """What answers frames that clients send to this node's broker."""


class ControllerChannel:
    """One per broker. Requests run side by side; a connection is kept as long as its controller is active."""

    def __init__(
        self,
        runtime: Runtime,
        quorum: RaftQuorum,
        *,
        node_id: int,
        timeout_ms: int,
        local: LocalController | None,
        security: ClientSecurity = UNPROTECTED,
    ) -> None:
        self._runtime = runtime
        self._quorum = quorum
        self._node_id = node_id
        self._timeout_ms = timeout_ms
        self.local = local
        self._security = security
        self._connection: Connection | None = None
        self._connected_to: tuple[int | None, tuple[VoterEndpoint, ...]] | None = None
        self._dialling = asyncio.Lock()
        self._moved = asyncio.Event()
        self._is_closed = False
        self._unsubscribe = quorum.on_leader_change(self._on_leader_change)

    async def request(self, api_key: ApiKey, build: Build) -> Any:
        """Ask the active controller; see `ControllerRequests`."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while not self._is_closed:
                    answer = await self._try(api_key, build)
                    if answer is not None and not _is_refusal(answer):
                        return answer
                    await self._pause()
        except TimeoutError as error:
            raise OperationError(
                ErrorCode.request_timed_out, f"no active controller answered within {self._timeout_ms} ms"
            ) from error
        raise OperationError(ErrorCode.request_timed_out, "no active controller answered before the broker stopped")

    async def close(self) -> None:
        """Hang up; requests under way fail. Closing twice is allowed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._moved.set()
        self._unsubscribe()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await connection.wait_closed()

    async def _try(self, api_key: ApiKey, build: Build) -> Any:
        """Return the response of the quorum's leader, None if no voter responded."""
        leader = self._quorum.leader
        if leader.leader_id is None:
            return None
        if leader.leader_id == self._node_id:
            if self.local is None or not self.local.is_active:
                return None
            version = SPECS[api_key].max_version
            return await self.local.answer(api_key, version, build(request_types(api_key, version)))
        connection: Connection | None = None
        try:
            connection = await self._connect(leader)
            return await connection.request(api_key, build)
        except VersionMismatchError:
            raise
        except (ClientNetworkError, WireError, OSError):
            # Others may use a newer connection by now.
            if connection is not None and connection is self._connection:
                self._hang_up()
            return None

    async def _connect(self, leader: QuorumLeader) -> Connection:
        wanted = (leader.leader_id, leader.endpoints)
        async with self._dialling:
            if self._connection is not None and (self._connected_to != wanted or not self._connection.is_open):
                self._hang_up()
            if self._connection is None:
                connection = await self._dial(leader.endpoints)
                if self._is_closed:
                    connection.close()
                    raise ClientNetworkError("the node stops")
                self._connection = connection
                self._connected_to = wanted
            return self._connection

    async def _dial(self, endpoints: tuple[VoterEndpoint, ...]) -> Connection:
        settings = ConnectionSettings(
            client_id=f"broker-{self._node_id}",
            connect_timeout_ms=min(CONNECT_TIMEOUT_MS, self._timeout_ms),
            request_timeout_ms=self._timeout_ms,
            security=self._security,
        )
        failure: CrabkaError = ClientNetworkError("no endpoint of the active controller is known")
        for endpoint in endpoints:
            try:
                return await Connection.open(self._runtime.network, endpoint.host, endpoint.port, settings)
            except CrabkaError as error:
                failure = error
        raise failure

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _pause(self) -> None:
        self._moved.clear()
        try:
            async with asyncio.timeout(RETRY_PAUSE_MS / 1000):
                await self._moved.wait()
        except TimeoutError:
            return

    def _on_leader_change(self, leader: QuorumLeader) -> None:
        self._moved.set()
        if self._connected_to is not None and leader.leader_id != self._connected_to[0]:
            # Whatever waits there for an answer asks the next one.
            self._hang_up()


def _is_refusal(answer: Any) -> bool:
    """Return whether a controller says that it is not the active one, for the whole request or for its rows."""
    code = getattr(answer, "error_code", None)
    if code is not None:
        return code is ErrorCode.not_controller
    rows = next((each for each in _field_values(answer) if isinstance(each, tuple) and each), ())
    return any(getattr(row, "error_code", None) is ErrorCode.not_controller for row in rows)


def _field_values(entity: Any) -> list[Any]:
    """Return the values of a message's fields."""
    return [getattr(entity, name) for name in entity.__dataclass_fields__]
