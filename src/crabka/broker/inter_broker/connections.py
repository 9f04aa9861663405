"""Requests of this broker to other brokers: one connection to each, dialled when it is first needed.

Where a broker listens and in which epoch it runs is read from the metadata at every request: a connection to an
endpoint or an incarnation that is gone is never used again. Decides nothing about retries.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.clients.cluster.connection import Connection, ConnectionSettings
from crabka.clients.errors import ClientClosedError, ClientNetworkError, RequestTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.clients.cluster.connection import BodyBuilder
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.ports import Runtime
    from crabka.protocol.api_keys import ApiKey

MAIN_CHANNEL: Final = "main"


class _Target(NamedTuple):
    """Where one incarnation of a broker is reached."""

    host: str
    port: int
    broker_epoch: int


class _Line(NamedTuple):
    """A connection, and whom it was made for."""

    target: _Target
    connection: Connection


class BrokerConnections:
    """Connections to the other brokers of the cluster."""

    def __init__(
        self,
        runtime: Runtime,
        image: Callable[[], MetadataImage],
        identity: BrokerIdentity,
        listener_name: str,
        settings: ConnectionSettings | None = None,
    ) -> None:
        self._runtime = runtime
        self._image = image
        self._listener_name = listener_name
        self._settings = replace(settings or ConnectionSettings(), client_id=f"broker-{identity.node_id}")
        self._lines: dict[tuple[int, str], _Line] = {}
        self._dialling: dict[tuple[int, str], asyncio.Lock] = {}
        self._is_closed = False

    async def request(
        self, node_id: int, api_key: ApiKey, build: BodyBuilder, timeout_ms: int, *, channel: str = MAIN_CHANNEL
    ) -> Any:
        """Ask a broker in the newest version that both sides know; the time includes that of dialling.

        A broker answers one connection in order: requests that wait long have a channel, a connection, of their own.
        Raises ClientNetworkError if the broker is unknown, fenced, not reached or does not answer in time,
        VersionMismatchError, WireError, ClientClosedError.
        """
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._connection(node_id, channel)
        except TimeoutError as error:
            raise RequestTimeoutError(f"broker {node_id} was not reached in {timeout_ms} ms") from error
        left_ms = max(1, deadline_ms - self._runtime.clock.monotonic_ms())
        return await connection.request(api_key, build, left_ms)

    def on_metadata(self, _delta: MetadataChanges, image: MetadataImage) -> None:
        """Give up connections to brokers that are fenced, gone or elsewhere now: their responses are not needed."""
        for slot, line in list(self._lines.items()):
            try:
                is_current = self._target(slot[0], image) == line.target
            except ClientNetworkError:
                is_current = False
            if not is_current:
                del self._lines[slot]
                line.connection.close()

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._is_closed = True
        lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            line.connection.close()
        for line in lines:
            await line.connection.wait_closed()

    async def _connection(self, node_id: int, channel: str) -> Connection:
        slot = (node_id, channel)
        # The lock keeps requests that come together from dialling twice.
        async with self._dialling.setdefault(slot, asyncio.Lock()):
            if self._is_closed:
                raise ClientClosedError("the node stops")
            target = self._target(node_id, self._image())
            line = self._lines.get(slot)
            if line is not None:
                if line.target == target and line.connection.is_open:
                    return line.connection
                line.connection.close()
                del self._lines[slot]
            connection = await Connection.open(self._runtime.network, target.host, target.port, self._settings)
            if self._is_closed:
                connection.close()
                raise ClientClosedError("the node stops")
            self._lines[slot] = _Line(target, connection)
            return connection

    def _target(self, node_id: int, image: MetadataImage) -> _Target:
        broker = image.cluster.brokers.get(node_id)
        if broker is None:
            raise ClientNetworkError(f"broker {node_id} is not registered")
        if broker.fenced:
            raise ClientNetworkError(f"broker {node_id} is fenced")
        endpoint = broker.endpoint(self._listener_name)
        if endpoint is None:
            raise ClientNetworkError(f"broker {node_id} has no listener {self._listener_name}")
        return _Target(endpoint.host, endpoint.port, broker.epoch)
