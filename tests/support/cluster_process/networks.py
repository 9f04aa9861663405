"""Where the nodes of a cluster of real processes live: one loopback for all, or a network namespace for each.

With namespaces every node has two cables: one to the switch of the cluster (controller and inter-broker listeners) and
one to the switch of the clients. A partition moves the cluster cables of some nodes to another switch: packets between
the two sides vanish without a reset, as when a real switch splits, while clients still reach every node. That is the
hardest case for safety: a leader that was cut off goes on to hear its producers.
Namespaces need root and `ip`; everything but partitions works on the loopback too.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Protocol

from tests.support.wire.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_numbers = itertools.count()


class ClusterNetwork(Protocol):
    """What a cluster asks of its network; addresses are `(host, port)`."""

    can_partition: bool

    def add_node(self, node_id: int) -> None:
        """Make room for a node."""

    def client_host(self, node_id: int) -> str:
        """The host that clients dial; the test process always reaches it."""

    def cluster_host(self, node_id: int) -> str:
        """The host that other nodes dial; the test process reaches it unless the node is cut off."""

    def new_port(self) -> int:
        """A port that no other listener of the cluster has."""

    def command_prefix(self, node_id: int) -> Sequence[str]:
        """What to put before a command so that it runs where the node lives."""

    def cut(self, node_ids: Collection[int]) -> None:
        """Separate these nodes from the others; among themselves they still talk."""

    def heal(self) -> None:
        """Put all nodes back together."""

    def close(self) -> None:
        """Remove everything; the nodes have ended."""


class LoopbackNetwork:
    """All nodes on 127.0.0.1; there is nothing to cut."""

    can_partition = False

    def add_node(self, node_id: int) -> None:
        """Nothing to do."""

    def client_host(self, node_id: int) -> str:
        """The loopback."""
        return "127.0.0.1"

    def cluster_host(self, node_id: int) -> str:
        """The loopback."""
        return "127.0.0.1"

    def new_port(self) -> int:
        """A free port."""
        return free_port()

    def command_prefix(self, node_id: int) -> Sequence[str]:
        """Nodes run as any process."""
        return ()

    def cut(self, node_ids: Collection[int]) -> None:
        """Not possible."""
        raise NotImplementedError("the loopback cannot be cut; see NamespaceNetwork")

    def heal(self) -> None:
        """Nothing was cut."""

    def close(self) -> None:
        """Nothing was made."""


class NamespaceNetwork:
    """A namespace for each node, joined by bridges; node n has the host part n of a subnet of this process."""

    can_partition = True

    def __init__(self) -> None:
        """Make the switches: for the cluster, for those that are cut off, for the clients."""
        number = (os.getpid() * 4 + next(_numbers)) % 30_000
        self._name = f"cr{number:x}"
        self._subnet = f"10.{64 + number // 256}.{number % 256}"
        self._ports = itertools.count(9000)
        self._node_ids: list[int] = []
        self._ip(
            f"link add {self._name}m type bridge",
            f"link add {self._name}i type bridge",
            f"link add {self._name}c type bridge",
            f"addr add {self._subnet}.126/25 dev {self._name}m",
            f"addr add {self._subnet}.254/25 dev {self._name}c",
            *(f"link set {self._name}{switch} up" for switch in "mic"),
        )

    def add_node(self, node_id: int) -> None:
        """Make the namespace and its two cables."""
        if not 0 < node_id < 126:
            raise ValueError(f"node id {node_id} does not fit into the subnet")
        space = self._space(node_id)
        self._ip(
            f"netns add {space}",
            f"link add {space}m type veth peer name cluster0 netns {space}",
            f"link add {space}c type veth peer name clients0 netns {space}",
            f"link set {space}m master {self._name}m up",
            f"link set {space}c master {self._name}c up",
        )
        self._ip(
            f"addr add {self._subnet}.{node_id}/25 dev cluster0",
            f"addr add {self._subnet}.{128 + node_id}/25 dev clients0",
            *(f"link set {device} up" for device in ("cluster0", "clients0", "lo")),
            space=space,
        )
        self._node_ids.append(node_id)

    def client_host(self, node_id: int) -> str:
        """The node's address on the switch of the clients."""
        return f"{self._subnet}.{128 + node_id}"

    def cluster_host(self, node_id: int) -> str:
        """The node's address on the switch of the cluster."""
        return f"{self._subnet}.{node_id}"

    def new_port(self) -> int:
        """The next port: no other process listens in these namespaces."""
        return next(self._ports)

    def command_prefix(self, node_id: int) -> Sequence[str]:
        """`ip netns exec` becomes the node itself, so that signals reach it."""
        return ("ip", "netns", "exec", self._space(node_id))

    def cut(self, node_ids: Collection[int]) -> None:
        """Move the cluster cables of these nodes to the switch of those that are cut off."""
        self._ip(*(f"link set {self._space(node_id)}m master {self._name}i" for node_id in node_ids))

    def heal(self) -> None:
        """Move all cluster cables back."""
        self._ip(*(f"link set {self._space(node_id)}m master {self._name}m" for node_id in self._node_ids))

    def close(self) -> None:
        """Remove namespaces, cables and switches."""
        spaces = [self._space(node_id) for node_id in self._node_ids]
        # A namespace goes some time after its name; without the cables a new one of the same name is not disturbed.
        self._ip(
            *(f"link del {space}{switch}" for space in spaces for switch in "mc"),
            *(f"netns del {space}" for space in spaces),
            *(f"link del {self._name}{switch}" for switch in "mic"),
        )

    def _space(self, node_id: int) -> str:
        return f"{self._name}n{node_id}"

    @staticmethod
    def _ip(*commands: str, space: str | None = None) -> None:
        where = ["-netns", space] if space else []
        text = "".join(f"{command}\n" for command in commands)
        done = subprocess.run(["ip", *where, "-batch", "-"], input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"ip {' '.join(where)} refused:\n{text}{done.stderr}")


def namespaces_available() -> bool:
    """Whether this process may make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"crprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made


def best_network() -> ClusterNetwork:
    """Namespaces where they can be had, else the loopback."""
    return NamespaceNetwork() if namespaces_available() else LoopbackNetwork()
