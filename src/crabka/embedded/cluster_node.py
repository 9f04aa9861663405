"""One node of a cluster under test, and what all of them share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from crabka.config.presets import HOST, NodePorts, combined_node_properties
from crabka.embedded.nodes.forgotten import end_when_forgotten
from crabka.embedded.nodes.thread_node import NodeMetadata, ThreadNode
from crabka.embedded.nodes.topology import Topology
from crabka.embedded.settings import check_settings, refuse_quorum
from crabka.embedded.under_test import UnderTest
from crabka.quorum.formatting import new_cluster_id, new_directory_id
from crabka.quorum.log.voters import VoterEndpoint, VoterNode
from crabka.runtime import real_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from crabka.config.server import ServerConfig
    from crabka.embedded.client import KitClient
    from crabka.embedded.edge.edge import Edge

# All nodes are on one machine: elections, and the search for brokers that are gone, need not wait for slow networks.
_QUICK: Final = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "replica.fetch.backoff.ms": "100",
}
START_S: Final = 60.0


class ClusterPlan:
    """The identity of a cluster: its nodes, their places, and the network between them."""

    def __init__(self, places: Sequence[NodePorts], root: Path, settings: Mapping[str, str], edge: Edge) -> None:
        """Draw the ids of the cluster and of its directories."""
        self._places = {each.node_id: each for each in places}
        self._root = root
        self._settings = settings
        self.edge = edge
        self.topology = Topology(
            {port: each.node_id for each in places for port in (each.broker_port, each.controller_port)}
        )
        runtime = real_runtime()
        self.cluster_id = new_cluster_id(runtime)
        self.voters = [
            VoterNode(
                each.node_id, new_directory_id(runtime), (VoterEndpoint("CONTROLLER", HOST, each.controller_port),)
            )
            for each in places
        ]
        runtime.threads.close()
        self.nodes: dict[int, ClusterNode] = {}

    def address(self, node_id: int) -> str:
        """Return host:port of a node, for clients."""
        return self._places[node_id].broker_address

    def data_dir(self, node_id: int) -> Path:
        """Return the directory of a node's data."""
        return self._root / f"node-{node_id}"

    def config(self, node_id: int) -> ServerConfig:
        """Return the settings of a node. Raises ConfigError."""
        return node_config(list(self._places.values()), node_id, str(self.data_dir(node_id)), self._settings)

    def has_quorum_with(self, node_id: int) -> bool:
        """Return whether enough running nodes reach a node, itself included, for a quorum."""
        running = [each for each in self.nodes if each == node_id or self.nodes[each].is_started]
        reached = [each for each in running if not self.topology.is_cut(node_id, each)]
        return len(reached) > len(self._places) // 2


def node_config(places: Sequence[NodePorts], node_id: int, data_dir: str, settings: Mapping[str, str]) -> ServerConfig:
    """Return the settings of one of several nodes. Raises ConfigError."""
    refuse_quorum(settings, "a Cluster has the voters that it needs; say how many by Cluster(nodes=…)")
    [place] = [each for each in places if each.node_id == node_id]
    properties = {**combined_node_properties(place, places, data_dir), **_QUICK, **settings}
    return check_settings(properties, settings)


class ClusterNode(UnderTest):
    """A node of a cluster: `cluster[2]`. Its faults and requests are those of this node alone."""

    def __init__(self, plan: ClusterPlan, node_id: int, client: KitClient) -> None:
        self.node_id = node_id
        self._plan = plan
        self._kit_client = client
        self._node: ThreadNode | None = None
        self._call_off_end: Callable[[], object] = bool
        self._reported: BaseException | None = None
        # Why its last life ended, if that was no call of ours.
        self._ended: BaseException | None = None
        self._changing = threading.RLock()

    @property
    def address(self) -> str:
        """host:port of the node, for clients, whether it runs or not."""
        return self._plan.address(self.node_id)

    @property
    def bootstrap_servers(self) -> str:
        """The same. Raises RuntimeError unless the node runs, with the reason if it has failed."""
        self._running()
        return self.address

    @property
    def data_dir(self) -> Path:
        """The directory of the node's data."""
        return self._plan.data_dir(self.node_id)

    @property
    def is_started(self) -> bool:
        """Whether the node was started and did neither stop nor fail; it may still wait for others."""
        return self._node is not None and self._node.failure is None

    @property
    def is_running(self) -> bool:
        """Whether the node serves."""
        return self._node is not None and self._node.is_serving and self._node.failure is None

    def start(self) -> None:
        """Start, and wait until the node serves, unless there are too few nodes for a quorum.

        Raises RuntimeError if it runs already, TimeoutError, and what the node's start raises.
        """
        with self._changing:
            self.begin()
            if self._plan.has_quorum_with(self.node_id):
                self.wait_serving()

    def stop(self) -> None:
        """Stop cleanly, if it runs."""
        with self._changing:
            if self._node is not None:
                self._node.stop()
                self._forget()

    def kill(self) -> None:
        """End as by `kill -9`: nothing is closed, flushed, handed over or answered."""
        with self._changing:
            if self._node is not None:
                self._node.kill()
                self._forget()

    def restart(self) -> None:
        """Stop cleanly, if it runs, and start again; see `start`."""
        with self._changing:
            self.stop()
            self.start()

    def pause(self) -> None:
        """Let the node do nothing until `resume`, as by SIGSTOP."""
        with self._changing:
            self._running().pause()

    def resume(self) -> None:
        """Let a paused node go on."""
        with self._changing:
            self._running().resume()

    def restore(self) -> None:
        """Start the node if it does not run, resume it, end its faults."""
        with self._changing:
            if self._node is None:
                self.start()
            self.resume()
            self.clear_faults()

    def __repr__(self) -> str:
        state = "running" if self.is_running else "starting" if self.is_started else "not running"
        return f"<node {self.node_id} on {self.address}: {state}>"

    # --- for the cluster

    def begin(self) -> None:
        """Start without waiting."""
        if self._node is not None:
            raise RuntimeError(f"node {self.node_id} is running already")
        plan = self._plan
        self._reported = None
        node = ThreadNode(
            plan.config(self.node_id),
            edge=plan.edge,
            network=plan.topology.network_of(self.node_id),
            cluster_id=plan.cluster_id,
            voters=plan.voters,
        )
        node.begin()
        self._node, self._call_off_end = node, end_when_forgotten(self, node.kill, self._kit_client.close)

    def wait_serving(self) -> None:
        """Wait until the node serves. Raises TimeoutError, and what the node's start raises."""
        node = self._node
        if node is None:
            return
        try:
            node.wait_serving(START_S)
        except TimeoutError:
            running = [str(each.node_id) for each in self._plan.nodes.values() if each.is_running]
            raise TimeoutError(
                f"node {self.node_id} does not serve after {START_S:g} s; running are: {', '.join(running) or 'none'}"
            ) from None

    @property
    def is_paused(self) -> bool:
        """Whether the node was paused and not resumed."""
        return self._node is not None and self._node.is_paused

    def metadata(self) -> NodeMetadata | None:
        """Return what the node knows of the cluster, None if it does not run."""
        return None if self._node is None else self._node.metadata()

    def raise_failure(self) -> None:
        """Raise RuntimeError if the node has failed."""
        if self._node is not None and (failure := self._node.failure) is not None:
            self._reported = failure
            raise RuntimeError(f"node {self.node_id} has failed: {failure}") from failure

    def raise_unreported(self) -> None:
        """Raise RuntimeError if the node had failed and no call has reported it."""
        ended, self._ended = self._ended, None
        if ended is not None and ended is not self._reported:
            raise RuntimeError(f"node {self.node_id} has failed: {ended}") from ended

    # --- for the parts

    def _forget(self) -> None:
        self._call_off_end()
        self._ended = None if self._node is None else self._node.failure
        self._node = None

    def _running(self) -> ThreadNode:
        self._check()
        if self._node is None:
            raise RuntimeError(f"node {self.node_id} is not running")
        return self._node

    def _edge(self) -> Edge:
        self._check()
        return self._plan.edge

    def _node_id(self) -> int:
        return self.node_id

    def _client(self) -> KitClient:
        return self._kit_client

    def _check(self) -> None:
        self.raise_failure()
