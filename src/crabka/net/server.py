"""A listening socket with its connections: registry, limits, idle cut and orderly shutdown."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from crabka.net.complaints import Complaints
from crabka.net.connection import ServerConnection
from crabka.net.descriptor_guard import DescriptorGuard
from crabka.net.dispatch import ConnectionInfo, Dispatch, Gate
from crabka.net.frame_memory import FrameMemory
from crabka.net.limits import ConnectionLimits
from crabka.net.tls import ListenerTls, tls_failure
from crabka.net.turns import Turns
from crabka.ports import Listener, Network, TlsAcceptance

if TYPE_CHECKING:
    import ssl

# The idle sweep runs this often per idle limit, so a connection is cut at most that fraction too late.
SWEEPS_PER_IDLE_LIMIT = 16


class Server:
    """Accepts connections on one listener and hands their frames to `dispatch`."""

    def __init__(
        self,
        network: Network,
        dispatch: Dispatch,
        limits: ConnectionLimits | None = None,
        listener_name: str = "PLAINTEXT",
        on_closed: Callable[[ConnectionInfo], None] | None = None,
        *,
        turns: Turns | None = None,
        memory: FrameMemory | None = None,
        guard: DescriptorGuard | None = None,
        make_gate: Callable[[ServerConnection, Dispatch], Gate] | None = None,
        tls: ListenerTls | None = None,
    ) -> None:
        """Frames go to `dispatch`; `on_closed` is called at the end of every connection.

        `turns` and `memory` are shared by all servers of a node. `guard` refuses connections when descriptors run
        short. `make_gate` makes what stands before `dispatch` on a new connection. With `tls` connections are
        encrypted.
        """
        self.turns = Turns() if turns is None else turns
        self.memory = FrameMemory() if memory is None else memory
        self.dispatch = dispatch
        self.limits = limits or ConnectionLimits()
        self.listener_name = listener_name
        # In the order of their arrival.
        self.connections: dict[ServerConnection, None] = {}
        self.tick = 0
        self.network = network
        self.make_gate = make_gate
        self.tls = tls
        self._on_closed = on_closed
        self._guard = guard
        self._complaints = Complaints()
        self._ids = itertools.count(1)
        self._listener: Listener | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self._closing = False

    async def listen(self, host: str, port: int) -> Listener:
        """Start to accept on host:port; port 0 picks a free one. Raises OSError."""
        tls = None if self.tls is None else TlsAcceptance(self._tls_context, self._on_handshake_failure)
        self._listener = await self.network.listen(self._new_connection, host, port, tls=tls)
        if self.limits.max_idle_ms >= 0:
            self._schedule_sweep()
        return self._listener

    def redirect(self, dispatch: Dispatch) -> None:
        """Pass frames to another dispatcher from now on, those of connections that exist as well."""
        self.dispatch = dispatch
        for connection in self.connections:
            connection.redirect(dispatch)

    def cut(self, info: ConnectionInfo, *, after_answers: bool = False) -> None:
        """Close a connection of this server, at once or when what it has answered so far is written."""
        for connection in tuple(self.connections):
            if connection.info is info:
                connection.finish()
                if not after_answers:
                    connection.abort()

    def stop_listening(self) -> None:
        """Refuse new connections; those that exist go on."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def close(self, grace_ms: int = 5000) -> None:
        """Stop accepting and reading, let requests in progress be answered, then cut what is left."""
        self._closing = True
        self.stop_listening()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in tuple(self.connections):
            connection.finish()
        try:
            async with asyncio.timeout(grace_ms / 1000):
                await self._all_gone.wait()
        except TimeoutError:
            for connection in tuple(self.connections):
                connection.abort()
            await self._all_gone.wait()

    def abort(self) -> None:
        """Stop accepting and cut all connections at once, without answers: the process is about to end."""
        self._closing = True
        self.stop_listening()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for connection in tuple(self.connections):
            connection.abort()

    def sweep(self) -> None:
        """Cut connections that were idle during the last SWEEPS_PER_IDLE_LIMIT sweeps; a timer calls this.

        One timer serves all: a busy connection only copies the number of the current tick.
        """
        self.tick += 1
        oldest_tick = self.tick - SWEEPS_PER_IDLE_LIMIT
        for connection in tuple(self.connections):
            if connection.is_idle(oldest_tick):
                connection.abort()

    # --- for connections

    def register(self, connection: ServerConnection, transport: asyncio.BaseTransport) -> bool:
        """Take a new connection in; False if it must go."""
        self.connections[connection] = None
        self._all_gone.clear()
        if self._closing or len(self.connections) > self.limits.max_connections:
            return False
        if self._guard is None:
            return True
        connected = transport.get_extra_info("socket")
        return connected is None or self._guard.admits(connected.fileno())

    def unregister(self, connection: ServerConnection) -> None:
        """Forget a connection that is closed."""
        self.connections.pop(connection, None)
        if self._on_closed is not None:
            self._on_closed(connection.info)
        if not self.connections:
            self._all_gone.set()

    def complain(self, connection: ServerConnection, error: Exception) -> None:
        """Log a breach of protocol, once for each client."""
        self._complaints.warn(connection.info.peer_host, error, asyncio.get_running_loop().time())

    # --- internals

    def _tls_context(self) -> ssl.SSLContext:
        assert self.tls is not None  # noqa: S101 - it is asked for at listeners with TLS alone
        return self.tls.context

    def _on_handshake_failure(self, peer_host: str, error: OSError) -> None:
        failure = tls_failure(self.listener_name, error)
        if failure is not None:
            self._complaints.warn(peer_host, failure, asyncio.get_running_loop().time())

    def _new_connection(self) -> ServerConnection:
        return ServerConnection(self, next(self._ids))

    def _schedule_sweep(self) -> None:
        interval_seconds = self.limits.max_idle_ms / 1000 / SWEEPS_PER_IDLE_LIMIT
        self._sweep_timer = asyncio.get_running_loop().call_later(interval_seconds, self._sweep_again)

    def _sweep_again(self) -> None:
        self.sweep()
        self._schedule_sweep()
