"""Which nodes of a cluster reach each other: their network ports, and what cuts them apart.

Every connection between nodes is opened by one of them. So it is enough to refuse and to cut what the nodes open;
clients reach all nodes at all times.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import weakref
from typing import TYPE_CHECKING

from crabka.embedded.nodes.life import abort

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping

    from crabka.ports import DirectWriter, Listener, Network, TlsAcceptance


class Topology:
    """The nodes of one cluster by their ports. Changed on the thread of a test, asked on the loops of nodes."""

    def __init__(self, node_of_port: Mapping[int, int]) -> None:
        """All nodes reach each other."""
        self._node_of_port = dict(node_of_port)
        # Replaced as a whole.
        self._groups: tuple[frozenset[int], ...] = ()
        self._networks: weakref.WeakSet[NodeNetwork] = weakref.WeakSet()
        self._adding = threading.Lock()

    def partition(self, groups: Iterable[Iterable[int]]) -> None:
        """Cut groups of nodes off from each other; nodes in none of them reach all. Raises ValueError."""
        cut = tuple(frozenset(group) for group in groups)
        known = set(self._node_of_port.values())
        for number, group in enumerate(cut):
            if unknown := sorted(group - known):
                raise ValueError(f"there is no node {unknown[0]}: the nodes are {_listed(known)}")
            if twice := sorted(group.intersection(*cut[:number]) if number else ()):
                raise ValueError(f"node {twice[0]} cannot be in two groups")
        self._groups = cut
        with self._adding:
            networks = list(self._networks)
        for network in networks:
            network.cut()

    def heal(self) -> None:
        """Let all nodes reach each other again."""
        self._groups = ()

    def is_cut(self, one: int, other: int) -> bool:
        """Return whether two nodes do not reach each other."""
        sides = [group for group in self._groups if one in group or other in group]
        return len(sides) > 1

    def node_of(self, port: int) -> int | None:
        """Return the node that listens on a port."""
        return self._node_of_port.get(port)

    def network_of(self, node_id: int) -> Callable[[Network], Network]:
        """Return what puts a node into this topology."""

        def join(network: Network) -> Network:
            joined = NodeNetwork(self, node_id, network)
            with self._adding:
                self._networks.add(joined)
            return joined

        return join


class NodeNetwork:
    """The network port of one node, on whose loop it is made."""

    def __init__(self, topology: Topology, node_id: int, network: Network) -> None:
        self._topology = topology
        self._node_id = node_id
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._opened: weakref.WeakKeyDictionary[asyncio.BaseTransport, int] = weakref.WeakKeyDictionary()

    def cut(self) -> None:
        """Cut connections to nodes that are out of reach; called on any thread, returns when they are cut."""
        done = threading.Event()

        def close() -> None:
            for transport, peer in list(self._opened.items()):
                if self._topology.is_cut(self._node_id, peer):
                    abort(transport)
            done.set()

        try:
            self._loop.call_soon_threadsafe(close)
        except RuntimeError:  # the node has ended
            return
        # A paused node does not close its connections; it does so when it is resumed.
        done.wait(_CUT_S)

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: TlsAcceptance | None = None
    ) -> Listener:
        """Accept connections on host:port."""
        return await self._network.listen(factory, host, port, tls=tls)

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection. Raises OSError also if the node there is out of reach."""
        peer = self._topology.node_of(port)
        self._check(peer)
        transport, protocol = await self._network.connect(factory, host, port, tls=tls)
        if peer is not None:
            self._opened[transport] = peer
            try:
                self._check(peer)
            except OSError:
                abort(transport)
                raise
        return transport, protocol

    def direct_writer(self, transport: asyncio.BaseTransport) -> DirectWriter | None:
        """Return a writer for a connection, None if it can only be written through its transport."""
        return self._network.direct_writer(transport)

    def _check(self, peer: int | None) -> None:
        if peer is not None and self._topology.is_cut(self._node_id, peer):
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))


# How long a partition waits for one node to cut its connections.
_CUT_S = 1.0


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
