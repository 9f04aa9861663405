"""Requests to other replicas: connections, responses, and the check whether a leader's process is gone.

A peer has two connections: a waiting fetch must not delay votes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from crabka.clients.cluster.connection import Connection, ConnectionSettings
from crabka.clients.errors import ClientNetworkError, RequestTimeoutError, VersionMismatchError
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.errors import CrabkaError
from crabka.kraft.events import LeaderLost, RequestFailed, ResponseReceived
from crabka.kraft.messages import FetchSnapshotRequest, MetadataFetchRequest, Request, Response
from crabka.quorum.raft.messages import API_KEYS, decode_response, encode_request, min_version

if TYPE_CHECKING:
    from crabka.kraft.actions import Send
    from crabka.kraft.voters import Peer, VoterEndpoint
    from crabka.ports import Network

# A restarting process binds its port within moments: only a port that stays closed shows a lost leader.
PROBE_PAUSE_MS = 100
_FETCHES = (MetadataFetchRequest, FetchSnapshotRequest)


class OutboundDialer(Protocol):
    """Opens connections to other controllers, with or without encryption."""

    async def dial(self, endpoint: VoterEndpoint, timeout_ms: int) -> Connection:
        """Connect to an endpoint, resolving its name again. Raises ClientNetworkError and other CrabkaErrors."""
        ...


class NetworkDialer:
    """Connects over the network, protected as the settings of the node say."""

    def __init__(self, network: Network, client_id: str, security: ClientSecurity = UNPROTECTED) -> None:
        self._network = network
        self._client_id = client_id
        self._security = security

    async def dial(self, endpoint: VoterEndpoint, timeout_ms: int) -> Connection:
        """Connect to an endpoint. Raises ClientNetworkError, WireError."""
        settings = ConnectionSettings(
            client_id=self._client_id,
            connect_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            security=self._security,
        )
        return await Connection.open(self._network, endpoint.host, endpoint.port, settings)


class _Lane:
    """One connection to one peer, dialled on first use."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.endpoints: tuple[VoterEndpoint, ...] = ()
        self.turn = asyncio.Lock()


class RaftSender:
    """Sends requests of the core; every one ends in exactly one event."""

    def __init__(self, dialer: OutboundDialer, timeout_ms: int) -> None:
        self._dialer = dialer
        self._timeout_ms = timeout_ms
        self._lanes: dict[tuple[int, bool], _Lane] = {}

    async def send(self, send: Send) -> ResponseReceived | RequestFailed:
        """Send a request and return its outcome, at the latest after the request time-out."""
        return (await self.send_watched(send))[0]

    async def send_watched(self, send: Send) -> tuple[ResponseReceived | RequestFailed, bool]:
        """Send a request; also return whether it failed because the connection broke or could not be opened."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return ResponseReceived(send.request_id, await self._exchange(send.to, send.request)), False
        except VersionMismatchError:
            return RequestFailed(send.request_id, unsupported=True), False
        except ClientNetworkError as error:
            return RequestFailed(send.request_id), not isinstance(error, RequestTimeoutError)
        except TimeoutError:
            # Responses arrive in order: later requests on this connection would wait as well.
            self._hang_up(send)
            return RequestFailed(send.request_id), False
        except (OSError, CrabkaError):
            return RequestFailed(send.request_id), False

    async def look_for(self, peer: Peer) -> LeaderLost | None:
        """Return LeaderLost if every endpoint of a peer refuses connections, twice with a pause between."""
        for pause_ms in (0, PROBE_PAUSE_MS):
            await asyncio.sleep(pause_ms / 1000)
            for endpoint in peer.endpoints:
                if not await self._refuses(endpoint):
                    return None
        return LeaderLost(peer.node_id) if peer.endpoints else None

    async def close(self) -> None:
        """Close all connections."""
        connections = [lane.connection for lane in self._lanes.values() if lane.connection is not None]
        self._lanes.clear()
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()

    def _hang_up(self, send: Send) -> None:
        connection = self._lane(send.to, send.request).connection
        if connection is not None:
            connection.close()

    async def _exchange(self, peer: Peer, request: Request) -> Response:
        lane = self._lane(peer, request)
        connection = await self._connect(lane, peer)
        key, lowest = API_KEYS[type(request)], min_version(request)
        if connection.version_of(key) < lowest:
            raise VersionMismatchError(f"{connection.address} does not know {key.name} version {lowest}")
        body = await connection.request(key, lambda types: encode_request(types, request))
        return decode_response(key, body)

    async def _connect(self, lane: _Lane, peer: Peer) -> Connection:
        async with lane.turn:
            if lane.connection is not None and (not lane.connection.is_open or lane.endpoints != peer.endpoints):
                lane.connection.close()
                lane.connection = None
            if lane.connection is None:
                lane.connection = await self._dial(peer)
                lane.endpoints = peer.endpoints
            return lane.connection

    async def _dial(self, peer: Peer) -> Connection:
        failure: CrabkaError = ClientNetworkError(f"no endpoint of node {peer.node_id} is known")
        for endpoint in peer.endpoints:
            try:
                return await self._dialer.dial(endpoint, self._timeout_ms)
            except CrabkaError as error:
                failure = error
        raise failure

    async def _refuses(self, endpoint: VoterEndpoint) -> bool:
        try:
            connection = await self._dialer.dial(endpoint, self._timeout_ms)
        except CrabkaError as error:
            return isinstance(error.__cause__, ConnectionRefusedError)
        connection.close()
        await connection.wait_closed()
        return False

    def _lane(self, peer: Peer, request: Request) -> _Lane:
        return self._lanes.setdefault((peer.node_id, isinstance(request, _FETCHES)), _Lane())
