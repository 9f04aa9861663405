"""A network of named hosts in memory, with latency, partitions, cuts and crashes.

Owns which hosts reach which. Connections behave as TCP: a partition does not lose or reorder bytes, it delays them
until it heals; only cuts, crashes and aborts end a connection. Hosts are addressed by their names, and themselves also
by `localhost`, `127.0.0.1` and the like.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import socket
from typing import TYPE_CHECKING

from crabka.errors import ConfigError
from crabka.testing.simulated_transport import SimulatedTransport

if TYPE_CHECKING:
    import random
    import ssl
    from collections.abc import Callable

    from crabka.ports import TlsAcceptance
    from crabka.testing.simulated_transport import Pipe

LOOPBACK_NAMES = frozenset(("", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"))  # noqa: S104 - names, not bound
FIRST_EPHEMERAL_PORT = 49_152
# How long a SYN is sent again before connect gives up, as Linux does by default (tcp_syn_retries = 6).
CONNECT_TIMEOUT_S = 127.0

DEFAULT_LATENCY_MS = (0.1, 2.0)
LOOPBACK_LATENCY_MS = (0.01, 0.05)


class SimulatedListener:
    """A port of a host that accepts connections."""

    def __init__(self, owner: SimulatedHost, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.host = host
        self.port = port
        self.factory = factory
        self.context = contextvars.copy_context()
        self._owner = owner

    def close(self) -> None:
        """Stop accepting; connections that exist live on."""
        if self._owner.listeners.get(self.port) is self:
            del self._owner.listeners[self.port]


class SimulatedHost:
    """The network port of one host. It outlives crashes of the node that runs on it."""

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        self.name = name
        self.listeners: dict[int, SimulatedListener] = {}
        self.crash_count = 0
        self._network = network

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: TlsAcceptance | None = None
    ) -> SimulatedListener:
        """Accept connections on a port, whatever the interface; port 0 picks a free one. Raises OSError."""
        if tls is not None:
            raise ConfigError("the simulated network has no TLS")
        port = port or self._network.free_port()
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.listeners[port] = SimulatedListener(self, host, port, factory)
        return self.listeners[port]

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connect to a host by name. Raises ConnectionRefusedError, TimeoutError or socket.gaierror.

        There is no TLS here, because its bytes do not follow from a seed: TLS settings raise ConfigError.
        """
        if tls is not None:
            raise ConfigError("the simulated network has no TLS")
        destination = self if host in LOOPBACK_NAMES else self._network.find(host)
        transport = await self._network.connect(self, destination, port)
        protocol = factory()
        transport.start(protocol)
        return transport, protocol

    def direct_writer(self, _transport: asyncio.BaseTransport) -> None:
        """Return None: there is no socket behind a simulated transport."""


class _Route:
    """One direction between two hosts, as pipes see it."""

    def __init__(self, network: SimulatedNetwork, source: str, destination: str) -> None:
        self._network = network
        self._ends = (source, destination)

    def travel_s(self) -> float:
        return self._network.draw_latency_s(*self._ends)

    def blocked(self) -> bool:
        return self._ends in self._network.blocked

    def park(self, pipe: Pipe) -> None:
        self._network.parked[pipe] = None


class SimulatedNetwork:
    """All hosts and the links between them. The same generator state gives the same delays and chunks."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        *,
        latency_ms: tuple[float, float] = DEFAULT_LATENCY_MS,
    ) -> None:
        self.blocked: set[tuple[str, str]] = set()  # directions (source, destination) that let nothing through
        self.parked: dict[Pipe, None] = {}  # pipes that wait for a direction to open, in order
        self._loop = loop
        self._rng = rng
        self._latency_ms = latency_ms
        self._link_latency_ms: dict[tuple[str, str], tuple[float, float]] = {}
        self._hosts: dict[str, SimulatedHost] = {}
        self._connections: list[tuple[SimulatedHost, SimulatedTransport, SimulatedHost, SimulatedTransport]] = []
        self._handshakes: list[asyncio.Future[None]] = []  # connects that wait for a direction to open
        self._next_port = FIRST_EPHEMERAL_PORT

    def host(self, name: str) -> SimulatedHost:
        """Return the host of that name, new or known."""
        return self._hosts.setdefault(name, SimulatedHost(self, name))

    def find(self, name: str) -> SimulatedHost:
        """Return a known host. Raises socket.gaierror as a resolver does."""
        if name not in self._hosts:
            raise socket.gaierror(socket.EAI_NONAME, f"no host {name!r} in the simulation")
        return self._hosts[name]

    # Faults.

    def set_latency(self, a: str, b: str, *, low_ms: float, high_ms: float) -> None:
        """Let segments between two hosts travel for a time within these bounds from now on."""
        self._link_latency_ms[a, b] = self._link_latency_ms[b, a] = (low_ms, high_ms)

    def partition(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Block segments from `a` to `b`, nor back unless `one_way`. Connections stay open and stall."""
        self.blocked.add((a, b))
        if not one_way:
            self.blocked.add((b, a))

    def isolate(self, name: str) -> None:
        """Partition a host from all others."""
        for other in self._hosts:
            if other != name:
                self.partition(name, other)

    def heal(self, a: str, b: str) -> None:
        """Unblock two hosts; stalled segments arrive late but in order."""
        self.blocked -= {(a, b), (b, a)}
        self._wake()

    def heal_all(self) -> None:
        """End all partitions."""
        self.blocked.clear()
        self._wake()

    def cut(self, a: str, b: str) -> None:
        """Reset all connections between two hosts; new ones can be opened."""
        for client_host, client, server_host, server in self._connections:
            if {client_host.name, server_host.name} == {a, b}:
                client.break_off()
                server.break_off()

    def crash(self, name: str) -> None:
        """End everything that a host's node had open: its listeners are gone, its peers see resets.

        The protocols of the crashed node are not called any more.
        """
        host = self.find(name)
        host.crash_count += 1
        host.listeners.clear()
        for client_host, client, server_host, server in self._connections:
            if client_host is host:
                client.vanish()
            if server_host is host:
                server.vanish()

    # For hosts and pipes.

    def free_port(self) -> int:
        """Return a port that no one has used."""
        self._next_port += 1
        return self._next_port - 1

    def draw_latency_s(self, source: str, destination: str) -> float:
        """Draw how long the next segment travels."""
        default = LOOPBACK_LATENCY_MS if source == destination else self._latency_ms
        low_ms, high_ms = self._link_latency_ms.get((source, destination), default)
        return self._rng.uniform(low_ms, high_ms) / 1000

    async def connect(self, source: SimulatedHost, destination: SimulatedHost, port: int) -> SimulatedTransport:
        """Shake hands and return the client's end, not yet started."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await self._shake_hands(source, destination, port)
        except TimeoutError as error:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error

    async def _shake_hands(self, source: SimulatedHost, destination: SimulatedHost, port: int) -> SimulatedTransport:
        crash_count = source.crash_count
        await self._travel(source.name, destination.name)
        listener = destination.listeners.get(port)
        if listener is None or source.crash_count != crash_count:
            await self._travel(destination.name, source.name)
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        client, server = self._join(source, destination, port)
        # In a callback of its own, so that an error of the server's factory is not the client's.
        self._loop.call_soon(_accept, listener, server, context=listener.context)
        try:
            await self._travel(destination.name, source.name)
        except BaseException:  # cancelled or timed out: the server must not wait for a client that is gone
            client.abort()
            raise
        if client.is_closing():
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return client

    def _join(
        self, source: SimulatedHost, destination: SimulatedHost, port: int
    ) -> tuple[SimulatedTransport, SimulatedTransport]:
        client_name, server_name = (source.name, self.free_port()), (destination.name, port)
        client = SimulatedTransport(self._loop, self._rng, client_name, server_name)
        server = SimulatedTransport(self._loop, self._rng, server_name, client_name)
        client.attach(server, _Route(self, source.name, destination.name))
        server.attach(client, _Route(self, destination.name, source.name))
        self._connections = [entry for entry in self._connections if not (entry[1].dead and entry[3].dead)]
        self._connections.append((source, client, destination, server))
        return client, server

    async def _travel(self, source: str, destination: str) -> None:
        """Take the time of one segment, and wait while the direction is blocked."""
        await asyncio.sleep(self.draw_latency_s(source, destination))
        while (source, destination) in self.blocked:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._handshakes.append(waiter)
            await waiter
            await asyncio.sleep(self.draw_latency_s(source, destination))

    def _wake(self) -> None:
        pipes, self.parked = self.parked, {}
        for pipe in pipes:
            pipe.resume()
        waiters, self._handshakes = self._handshakes, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _accept(listener: SimulatedListener, transport: SimulatedTransport) -> None:
    try:
        protocol = listener.factory()
    except BaseException:
        transport.abort()
        raise
    transport.start(protocol)
