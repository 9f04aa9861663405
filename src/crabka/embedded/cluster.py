"""`Cluster`: several nodes in this process, on real sockets, that a test kills, pauses and cuts apart.

    with Cluster(nodes=3) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.kill(cluster.leader("orders"))

Every node is broker and controller on a thread of its own. Topics have three replicas, as far as there are nodes, and
writes with acks=all survive the loss of any one node. Clients reach all nodes that run, also those that are cut off
from the others.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from crabka.config.presets import NodePorts
from crabka.embedded.client import KitClient
from crabka.embedded.cluster_node import ClusterNode, ClusterPlan, node_config
from crabka.embedded.edge.edge import Edge
from crabka.embedded.port_reservation import PortReservation
from crabka.embedded.settings import NO_SETTINGS, Settings, settings_text, tier_settings
from crabka.embedded.temporary_dir import TemporaryDir
from crabka.embedded.under_test import UnderTest
from crabka.metadata.image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from types import TracebackType

    from crabka.metadata.topics import PartitionImage

LOOPBACK: Final = "127.0.0.1"
MOST_NODES: Final = 9


class Cluster(UnderTest):
    """A cluster of nodes with the ids 1, 2, 3 …. Use it by `with` or `async with`, or by `start` and `close`."""

    def __init__(
        self,
        nodes: int = 3,
        settings: Settings = NO_SETTINGS,
        *,
        tier: str | PathLike[str] | None = None,
        journal: bool = True,
    ) -> None:
        """Describe the cluster; `start` starts it. Raises ConfigError for bad settings, ValueError for no nodes.

        `settings` are Kafka's, as text or as Python's values, for all nodes. `tier` receives segments of topics with
        remote.storage.enable. Without `journal` requests are not recorded. The data lies in a temporary directory.
        """
        _check_count(nodes)
        self._count = nodes
        self._settings = ({} if tier is None else tier_settings(tier, nodes)) | settings_text(settings)
        self._faults_and_journal = Edge(journal=journal)
        self._kit_client = KitClient(self._own_bootstrap)
        self._temporary_dir: TemporaryDir | None = None
        self._reservations: list[PortReservation] = []
        self._plan: ClusterPlan | None = None
        self._nodes: dict[int, ClusterNode] = {}
        self._owner = os.getpid()
        self._changing = threading.RLock()
        # Bad settings are refused here and not at the start.
        places = [NodePorts(each, each, MOST_NODES + each) for each in self.node_ids]
        node_config(places, 1, "unused", self._settings)

    # --- life

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every node, for clients. Raises RuntimeError unless a node runs."""
        self._check()
        if not any(node.is_running for node in self._nodes.values()):
            raise RuntimeError("no node of the cluster is running: use it as a context manager or call start()")
        return ",".join(node.address for node in self._nodes.values())

    @property
    def is_running(self) -> bool:
        """Whether all nodes run."""
        return bool(self._nodes) and all(node.is_running for node in self._nodes.values())

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes."""
        return list(range(1, self._count + 1))

    def start(self) -> Self:
        """Start all nodes and wait until they serve.

        Raises ConfigError and StorageError from a node, RuntimeError if one runs already.
        """
        with self._changing:
            self._check_owner()
            if any(node.is_started for node in self._nodes.values()):
                raise RuntimeError("the cluster is running already")
            try:
                self._prepare()
                nodes = list(self._nodes.values())
                for node in nodes:
                    node.begin()
                for node in nodes:
                    node.wait_serving()
            except BaseException:
                self._each(ClusterNode.kill)
                self._let_go()
                raise
        return self

    def stop(self) -> None:
        """Stop all nodes cleanly; ports and data are kept for another `start`. Stopping twice is allowed.

        Raises RuntimeError if a node had failed and no call has reported it.
        """
        self._end(ClusterNode.stop)

    def close(self) -> None:
        """End all nodes, give the ports back and remove the data. Closing twice is allowed.

        Raises RuntimeError if a node had failed and no call has reported it.
        """
        with self._changing:
            try:
                self._end(ClusterNode.kill)
            finally:
                self._let_go()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # --- nodes

    def __getitem__(self, node_id: int) -> ClusterNode:
        """Return a node. Raises LookupError if there is none, RuntimeError before the first start."""
        self._check_owner()
        if node_id not in self.node_ids:
            raise LookupError(f"there is no node {node_id}: the nodes are 1 to {self._count}")
        if not self._nodes:
            raise RuntimeError("the cluster was not started")
        return self._nodes[node_id]

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter([self[node_id] for node_id in self.node_ids])

    def __len__(self) -> int:
        return self._count

    def kill(self, node_id: int) -> None:
        """End a node as by `kill -9`. Killing it twice is allowed."""
        self[node_id].kill()
        self._kit_client.reconnect()

    def restart(self, node_id: int | None = None) -> None:
        """Start a node again, or all of them, after a clean stop of what runs; ports and data stay.

        It waits until the node serves, unless too few nodes for a quorum run and reach each other: then the node serves
        as soon as enough do.
        """
        if node_id is not None:
            self[node_id].restart()
            return
        with self._changing:
            self.stop()
            self.start()

    def pause(self, node_id: int) -> None:
        """Let a node do nothing until `resume`, as by SIGSTOP: connections stay open and are not answered."""
        self[node_id].pause()
        self._kit_client.reconnect()

    def resume(self, node_id: int | None = None) -> None:
        """Let a paused node go on, or all of them."""
        if node_id is not None:
            self[node_id].resume()
            return
        for node in self._nodes.values():
            if node.is_paused:
                node.resume()

    def restore(self) -> None:
        """Start the nodes that do not run, resume and heal, end all faults."""
        with self._changing:
            self._check()
            self.resume()
            if self._plan is not None:
                self.heal()
            self.clear_faults()
            missing = [node for node in self._nodes.values() if not node.is_started]
            for node in missing:
                node.begin()
            for node in self._nodes.values():
                node.wait_serving()

    def partition(self, *groups: list[int]) -> None:
        """Cut groups of nodes off from each other, in place of an earlier partition: `partition([1], [2, 3])`.

        Nodes in no group reach all, and so do clients. Raises ValueError.
        """
        if len(groups) < 2:
            raise ValueError("a partition has two groups at least: partition([1], [2, 3])")
        self._planned().topology.partition(groups)
        self._kit_client.reconnect()

    def heal(self) -> None:
        """Let all nodes reach each other again."""
        self._planned().topology.heal()

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads a partition. Raises LookupError while it has no leader."""
        leader = self._partition(topic, partition).leader
        if leader < 0:
            raise LookupError(f"partition {partition} of {topic} has no leader")
        return leader

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """Return the nodes whose replicas of a partition are in sync."""
        return sorted(self._partition(topic, partition).isr)

    def controller(self) -> int:
        """Return the active controller. Raises LookupError while there is none."""
        epochs = {
            each.node_id: metadata.active_epoch
            for each in self._nodes.values()
            if not each.is_paused and (metadata := each.metadata()) is not None and metadata.active_epoch is not None
        }
        self._check()
        if not epochs:
            raise LookupError("the cluster has no active controller")
        # One that is cut off may not have noticed yet that there is another.
        return max(epochs, key=lambda node_id: epochs[node_id])

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Cluster cannot be pickled: give other processes its bootstrap_servers")

    def __repr__(self) -> str:
        running = [str(node.node_id) for node in self._nodes.values() if node.is_running]
        return f"<Cluster of {self._count} nodes: {', '.join(running) or 'none'} running>"

    # --- for the parts

    def _edge(self) -> Edge:
        self._check()
        return self._faults_and_journal

    def _client(self) -> KitClient:
        return self._kit_client

    def _check(self) -> None:
        self._check_owner()
        for node in self._nodes.values():
            node.raise_failure()

    def _note_created(self, topic: str) -> None:
        created = self._newest().offset
        self.wait_until(lambda: self._have_all_applied(created), message=f"all running nodes know {topic}")

    def _have_all_applied(self, offset: int) -> bool:
        """Return whether all nodes that can have applied the metadata up to an offset."""
        controller = self.controller()
        return all(
            metadata.image.offset >= offset
            for each in self._nodes.values()
            if self._is_reachable(each, controller) and (metadata := each.metadata()) is not None
        )

    def _is_reachable(self, node: ClusterNode, controller: int) -> bool:
        return node.is_running and not node.is_paused and not self._planned().topology.is_cut(node.node_id, controller)

    def _newest(self) -> MetadataImage:
        found = [metadata.image for each in self._nodes.values() if (metadata := each.metadata()) is not None]
        self._check()
        return max(found, key=lambda image: image.offset, default=MetadataImage())

    def _partition(self, topic: str, partition: int) -> PartitionImage:
        found = self._newest().topics.by_name.get(topic)
        if found is None:
            raise LookupError(f"there is no topic {topic}")
        if partition not in found.partitions:
            raise LookupError(f"topic {topic} has no partition {partition}")
        return found.partitions[partition]

    def _own_bootstrap(self) -> str:
        """Return the nodes that the kit itself asks: those that can know the truth."""
        everything = self.bootstrap_servers
        try:
            controller = self.controller()
        except LookupError:
            return everything
        chosen = [each.address for each in self._nodes.values() if self._is_reachable(each, controller)]
        return ",".join(chosen) or everything

    def _check_owner(self) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"this Cluster belongs to process {self._owner}: give other processes its bootstrap_servers"
            )

    def _planned(self) -> ClusterPlan:
        self._check()
        if self._plan is None:
            raise RuntimeError("the cluster was not started")
        return self._plan

    def _prepare(self) -> None:
        """Choose ports and directories, once."""
        if self._plan is not None:
            return
        self._temporary_dir = TemporaryDir()
        self._reservations = [PortReservation(LOOPBACK) for _ in range(2 * self._count)]
        ports = [reservation.port for reservation in self._reservations]
        places = [NodePorts(each, ports[each - 1], ports[self._count + each - 1]) for each in self.node_ids]
        plan = self._plan = ClusterPlan(places, self._temporary_dir.path, self._settings, self._faults_and_journal)
        self._nodes = {each: ClusterNode(plan, each, self._kit_client) for each in self.node_ids}
        plan.nodes = self._nodes

    def _end(self, end: Callable[[ClusterNode], None]) -> None:
        with self._changing:
            self._check_owner()
            self._kit_client.close()
            self._each(end)
            for node in self._nodes.values():
                node.raise_unreported()

    def _each(self, act: Callable[[ClusterNode], None]) -> None:
        """Do it with all nodes at once: a node that stops waits for those that take over from it."""
        nodes = list(self._nodes.values())
        if nodes:
            with ThreadPoolExecutor(len(nodes)) as threads:
                list(threads.map(act, nodes))

    def _let_go(self) -> None:
        self._nodes, self._plan = {}, None
        for reservation in self._reservations:
            reservation.release()
        self._reservations = []
        if self._temporary_dir is not None:
            self._temporary_dir.remove()
            self._temporary_dir = None


def _check_count(nodes: Any) -> None:
    if not isinstance(nodes, int) or isinstance(nodes, bool) or not 1 <= nodes <= MOST_NODES:
        raise ValueError(f"a cluster has 1 to {MOST_NODES} nodes, not {nodes!r}")
