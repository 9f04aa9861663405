"""The sockets of a node: client listeners, controller listeners and the side port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from crabka.config.listener_settings import listener_settings
from crabka.config.listeners import format_address, parse_address
from crabka.errors import ConfigError
from crabka.metadata.cluster import Endpoint
from crabka.metadata.security import ScramImage
from crabka.net.frame_memory import DEFAULT_LIMIT_BYTES, FrameMemory
from crabka.net.limits import ConnectionLimits
from crabka.net.server import Server
from crabka.net.turns import Turns
from crabka.node.held_requests import HeldRequests
from crabka.runtime.clock import SystemClock
from crabka.runtime.entropy import secure_random
from crabka.runtime.network import own_host_name
from crabka.security.sasl.listener_rules import listener_rules
from crabka.serving.logins.journal import LoginJournal
from crabka.serving.logins.listener_logins import ListenerLogins
from crabka.serving.transport.server_tls import ServerTls
from crabka.vfs import OsFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.broker.lifecycle.side_port import SidePort
    from crabka.config.listeners import ListenerAddress
    from crabka.config.server import ServerConfig
    from crabka.net.connection import ServerConnection
    from crabka.net.descriptor_guard import DescriptorGuard
    from crabka.net.dispatch import ConnectionInfo, Dispatch, Gate
    from crabka.ports import Clock, FileSystem, Listener, Network

# How often the files of certificates are looked at.
CERTIFICATE_CHECK_S: Final = 2.0


class NodeListeners:
    """Binds and closes the sockets of one node."""

    def __init__(
        self,
        config: ServerConfig,
        network: Network,
        clock: Clock | None = None,
        *,
        client_guard: DescriptorGuard | None = None,
        controller_guard: DescriptorGuard | None = None,
        scram: Callable[[], ScramImage] = ScramImage,
        fs: FileSystem | None = None,
    ) -> None:
        """The guards refuse connections when descriptors run short; that of the other nodes gives way last.

        `scram` returns the newest credentials of SCRAM; `fs` has the certificates. Raises ConfigError
        for settings of security that cannot be.
        """
        self._config = config
        self._network = network
        self._client_guard = client_guard
        self._controller_guard = controller_guard
        # All listeners share the loop and the memory of the node.
        self._turns = Turns(clock)
        self._clock = clock or SystemClock()
        self._scram = scram
        self._rng = secure_random()
        self.logins = LoginJournal(self._clock)
        self._tls = {
            listener.name: ServerTls(settings, fs or OsFileSystem())
            for listener in config.listeners
            if (settings := listener_settings(config, listener.name)).uses_tls and not config.insecure_ignore_security
        }
        self._make_gates = {listener.name: self._gate_maker(listener.name) for listener in config.listeners}
        self._memory = FrameMemory(_memory_limit(config))
        self._client_servers: list[Server] = []
        self._controller_servers: list[Server] = []
        self._side_port: Listener | None = None
        self._endpoints: list[Endpoint] = []
        self._controller_endpoints: list[Endpoint] = []
        # Sockets are bound before the node can answer, because their ports are announced first.
        self._held_of_clients = HeldRequests()
        self._held_of_controllers = HeldRequests()
        self._client_dispatch: Dispatch | None = None
        # What stands between connections and the dispatcher: quotas next to it, a test's interception before them.
        self._limit: Callable[[Dispatch], Dispatch] | None = None
        self._wrap: Callable[[Dispatch], Dispatch] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port of the first client listener, as clients reach it; empty if there is none."""
        return _first_address(self._endpoints)

    @property
    def bootstrap_controllers(self) -> str:
        """Return host:port of the first controller listener; empty if there is none."""
        return _first_address(self._controller_endpoints)

    @property
    def side_port_address(self) -> str | None:
        """Return host:port of the side port, None if there is none."""
        return None if self._side_port is None else format_address(self._side_port.host, self._side_port.port)

    async def bind(self) -> list[Endpoint]:
        """Bind every client listener; return the endpoints that are announced to clients. Raises ConfigError.

        Requests wait until `serve`.
        """
        held = self._held_of_clients
        servers = [self._new_server(listener, held, self._client_guard) for listener in self._config.broker_listeners]
        self._endpoints = await self._bind(self._config.broker_listeners, servers, self._client_servers)
        return self._endpoints

    async def bind_controller(self, on_closed: Callable[[ConnectionInfo], None]) -> list[Endpoint]:
        """Bind every controller listener; return the endpoints that are announced to other nodes. Raises ConfigError.

        Requests wait until `serve_controllers`; `on_closed` is called at the end of each connection.
        """
        listeners, held = self._config.controller_listeners, self._held_of_controllers
        servers = [self._new_server(listener, held, self._controller_guard, on_closed) for listener in listeners]
        self._controller_endpoints = await self._bind(listeners, servers, self._controller_servers)
        return self._controller_endpoints

    async def watch_certificates(self) -> None:
        """Take new certificates into use when their files change, until cancelled."""
        while self._tls:
            await asyncio.sleep(CERTIFICATE_CHECK_S)
            for tls in self._tls.values():
                tls.reload_if_changed()

    def serve(self, dispatch: Dispatch) -> None:
        """Answer clients: first the requests that wait, then later ones."""
        self._client_dispatch = dispatch
        self._serve_clients()

    def limit(self, gate: Callable[[Dispatch], Dispatch] | None) -> None:
        """Pass requests of clients through the quotas that `gate` puts before their dispatcher, or through none."""
        self._limit = gate
        self._serve_clients()

    def intercept(self, wrap: Callable[[Dispatch], Dispatch]) -> None:
        """Pass requests of clients through what `wrap` makes of their dispatcher, from now on or from `serve` on."""
        self._wrap = wrap
        self._serve_clients()

    def cut(self, connection: ConnectionInfo, *, after_answers: bool = False) -> None:
        """Close a client's connection, at once or when what it has been answered so far is written."""
        for server in self._client_servers:
            server.cut(connection, after_answers=after_answers)

    def serve_controllers(self, dispatch: Dispatch) -> None:
        """The same for the controller listeners."""
        _serve(self._controller_servers, self._held_of_controllers, dispatch)

    def _serve_clients(self) -> None:
        dispatch = self._client_dispatch
        if dispatch is None:
            return
        for wrap in (self._limit, self._wrap):
            dispatch = dispatch if wrap is None else wrap(dispatch)
        _serve(self._client_servers, self._held_of_clients, dispatch)

    async def bind_side_port(self, side_port: SidePort) -> None:
        """Bind the side port if the node shall have one. Raises ConfigError."""
        address = self._config.crabka_http_listener
        if not address:
            return
        try:
            self._side_port = await side_port.listen(self._network, *parse_address(address))
        except OSError as error:
            raise ConfigError(f"crabka.http.listener: cannot listen on {address}: {error.strerror or error}") from error

    async def close_clients(self) -> None:
        """Stop accepting clients, let requests in progress be answered, close their connections."""
        if self._side_port is not None:
            self._side_port.close()
        for server in self._client_servers:
            await server.close()

    async def close_controllers(self) -> None:
        """The same for the controller listeners."""
        for server in self._controller_servers:
            await server.close()

    def abort(self) -> None:
        """Close all sockets at once, without answers: the process is about to end."""
        if self._side_port is not None:
            self._side_port.close()
        for server in (*self._client_servers, *self._controller_servers):
            server.abort()

    def _new_server(
        self,
        listener: ListenerAddress,
        held: HeldRequests,
        guard: DescriptorGuard | None,
        on_closed: Callable[[ConnectionInfo], None] | None = None,
    ) -> Server:
        return Server(
            self._network,
            held,
            self._limits(),
            listener.name,
            on_closed,
            turns=self._turns,
            memory=self._memory,
            guard=guard,
            make_gate=self._make_gates[listener.name],
            tls=self._tls.get(listener.name),
        )

    def _gate_maker(self, name: str) -> Callable[[ServerConnection, Dispatch], Gate] | None:
        """Return what makes clients of a listener log in, None if it is without SASL. Raises ConfigError."""
        settings = listener_settings(self._config, name)
        if not settings.uses_sasl or self._config.insecure_ignore_security:
            return None
        rules = listener_rules(settings)
        return ListenerLogins(rules, self._scram, rng=self._rng, clock=self._clock, journal=self.logins).gate

    async def _bind(
        self, listeners: Iterable[ListenerAddress], servers: list[Server], bound_servers: list[Server]
    ) -> list[Endpoint]:
        advertised = {endpoint.name: endpoint for endpoint in self._config.advertised_listeners}
        endpoints = []
        for listener, server in zip(listeners, servers, strict=True):
            try:
                bound = await server.listen(listener.host, listener.port)
            except OSError as error:
                raise ConfigError(f"cannot listen on {listener}: {error.strerror or error}") from error
            bound_servers.append(server)
            announced = advertised.get(listener.name, listener)
            # As Kafka, a node that listens on all addresses and has no other setting gives its own host name.
            host = announced.host or own_host_name()
            endpoints.append(Endpoint(listener.name, host, announced.port or bound.port, listener.security_protocol_id))
        return endpoints

    def _limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            max_frame_bytes=self._config.socket_request_max_bytes,
            max_idle_ms=self._config.connections_max_idle_ms,
            max_connections=self._config.max_connections,
        )


def _memory_limit(config: ServerConfig) -> int:
    limit = config.queued_max_request_bytes
    return limit if limit > 0 else max(DEFAULT_LIMIT_BYTES, config.socket_request_max_bytes)


def _serve(servers: Iterable[Server], held: HeldRequests, dispatch: Dispatch) -> None:
    held.release(dispatch)
    for server in servers:
        server.redirect(dispatch)


def _first_address(endpoints: list[Endpoint]) -> str:
    return format_address(endpoints[0].host, endpoints[0].port) if endpoints else ""
