"""The sockets of a node: client listeners and the side port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.config.listeners import format_address, parse_address
from crabka.errors import ConfigError
from crabka.metadata.cluster import Endpoint
from crabka.net.limits import ConnectionLimits
from crabka.net.server import Server
from crabka.runtime.network import own_host_name

if TYPE_CHECKING:
    from crabka.broker.side_port import SidePort
    from crabka.config.server import ServerConfig
    from crabka.net.connection import Dispatch
    from crabka.ports import Listener, Network

_PLAINTEXT = 0


class NodeListeners:
    """Binds and closes the sockets of one node."""

    def __init__(self, config: ServerConfig, network: Network) -> None:
        self._config = config
        self._network = network
        self._servers: list[Server] = []
        self._side_port: Listener | None = None
        self._endpoints: list[Endpoint] = []

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port of the first listener, as clients reach it."""
        first = self._endpoints[0]
        return format_address(first.host, first.port)

    @property
    def side_port_address(self) -> str | None:
        """Return host:port of the side port, None if there is none."""
        return None if self._side_port is None else format_address(self._side_port.host, self._side_port.port)

    async def bind(self, dispatch: Dispatch) -> list[Endpoint]:
        """Bind every client listener; return the endpoints that clients are told. Raises ConfigError."""
        advertised = {endpoint.name: endpoint for endpoint in self._config.advertised_listeners}
        limits = self._limits()
        for listener in self._config.broker_listeners:
            server = Server(self._network, dispatch, limits, listener.name)
            try:
                bound = await server.listen(listener.host, listener.port)
            except OSError as error:
                raise ConfigError(f"cannot listen on {listener}: {error.strerror or error}") from error
            self._servers.append(server)
            told = advertised.get(listener.name, listener)
            # As Kafka, a node that listens on all addresses and is told nothing else gives its own host name.
            host = told.host or own_host_name()
            self._endpoints.append(Endpoint(listener.name, host, told.port or bound.port, _PLAINTEXT))
        return self._endpoints

    async def bind_side_port(self, side_port: SidePort) -> None:
        """Bind the side port if the node shall have one. Raises ConfigError."""
        address = self._config.crabka_http_listener
        if not address:
            return
        try:
            self._side_port = await side_port.listen(self._network, *parse_address(address))
        except OSError as error:
            raise ConfigError(f"crabka.http.listener: cannot listen on {address}: {error.strerror or error}") from error

    async def close(self) -> None:
        """Stop accepting, let requests in progress be answered, close everything."""
        if self._side_port is not None:
            self._side_port.close()
        for server in self._servers:
            await server.close()

    def _limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            max_frame_bytes=self._config.socket_request_max_bytes,
            max_idle_ms=self._config.connections_max_idle_ms,
            max_connections=self._config.max_connections,
        )
