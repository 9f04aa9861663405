"""A cluster of real processes: format, start, find out who leads, wait until it is whole again."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from crabka.errors import CrabkaError
from crabka.ids import uuid_to_text
from tests.support.cluster_process.networks import LoopbackNetwork
from tests.support.cluster_process.nodes import NodePlace, NodeSpec
from tests.support.cluster_process.quorum import QuorumDescription, describe_quorum
from tests.support.nodes.process import PATIENCE_S, NodeError, wait_until

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.support.cluster_process.networks import ClusterNetwork
    from tests.support.cluster_process.nodes import ClusterNode

# Internal topics as small and as safe as tests need them.
CLUSTER_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}


def combined(count: int) -> list[NodeSpec]:
    """So many nodes that are broker and controller."""
    return [NodeSpec(node_id, is_broker=True, is_controller=True) for node_id in range(1, count + 1)]


def separate(brokers: int, controllers: int, *, voters: int | None = None) -> list[NodeSpec]:
    """Brokers 1, 2, … and controllers 101, 102, …, of which the first `voters` (else all) are voters at the start."""
    first = 101
    after_voters = first + (controllers if voters is None else voters)
    return [
        *(NodeSpec(node_id, is_broker=True, is_controller=False) for node_id in range(1, brokers + 1)),
        *(
            NodeSpec(node_id, is_broker=False, is_controller=True, is_voter=node_id < after_voters)
            for node_id in range(first, first + controllers)
        ),
    ]


class ClusterProcesses:
    """The nodes; as a context manager it starts those that are voters or brokers and ends all."""

    def __init__(
        self,
        directory: Path,
        kind: type[ClusterNode],
        shape: Iterable[NodeSpec],
        *,
        network: ClusterNetwork | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Place the nodes; `kind` says what they run, settings are added to the properties of every node."""
        self.network = network or LoopbackNetwork()
        self.kind = kind.name
        specs = list(shape)
        places = {spec.node_id: self._place(spec.node_id) for spec in specs}
        ways = [places[spec.node_id].controller_address for spec in specs if spec.is_controller]
        common = CLUSTER_SETTINGS | {"controller.quorum.bootstrap.servers": ",".join(ways)} | dict(settings or {})
        self._cut_off: frozenset[int] = frozenset()
        self._admins: dict[str, AdminClient] = {}
        self.nodes = {
            spec.node_id: kind(directory / f"node-{spec.node_id}", spec, places[spec.node_id], common) for spec in specs
        }

    @property
    def brokers(self) -> list[ClusterNode]:
        """All nodes with the broker role."""
        return [node for node in self.nodes.values() if node.spec.is_broker]

    @property
    def controllers(self) -> list[ClusterNode]:
        """All nodes with the controller role."""
        return [node for node in self.nodes.values() if node.spec.is_controller]

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, for clients."""
        return ",".join(node.bootstrap_servers for node in self.brokers)

    @property
    def server_list(self) -> list[str]:
        """Brokers that run and are not cut off, for questions that any of them can answer."""
        return [
            node.bootstrap_servers
            for node in self.brokers
            if node.is_alive() and not node.is_paused and node.node_id not in self._cut_off
        ]

    def format(self) -> None:
        """Format all nodes at once; raises NodeError with what the tool said."""
        voters = [node for node in self.controllers if node.spec.is_voter]
        listed = ",".join(f"{node.node_id}@{node.controller_address}:{uuid_to_text(uuid.uuid4())}" for node in voters)
        running = [(node, node.begin_format(listed)) for node in self.nodes.values()]
        for node, process in running:
            said, _ = process.communicate(timeout=120)
            if process.returncode != 0:
                raise NodeError(f"formatting node {node.node_id} ended with {process.returncode}: {said}")

    def start(self) -> Self:
        """Format and start brokers and voters, and wait until all brokers are known to each other."""
        self.format()
        started = [node for node in self.nodes.values() if node.spec.is_broker or node.spec.is_voter]
        for node in started:
            node.launch()
        for node in started:
            self.wait_serving(node)
        self.wait_registered()
        return self

    def wait_serving(self, node: ClusterNode) -> None:
        """Wait until a launched node accepts connections."""

        def serving() -> bool:
            if not node.is_alive():
                raise NodeError(f"node {node.node_id} ended with {node.exit_code()}: {node.last_output()}")
            return node.is_serving()

        wait_until(serving, f"node {node.node_id} serves")

    def wait_registered(self) -> None:
        """Wait until every broker names every broker to clients."""
        expected = {node.node_id for node in self.brokers}

        def known(server: str) -> bool:
            with contextlib.suppress(KafkaException):
                return {int(broker) for broker in self.admin(server).list_topics(timeout=5).brokers} == expected
            return False

        # A node that was frozen or cut off reports old metadata for a while: all must agree.
        wait_until(lambda: all(map(known, self.server_list)), f"all know brokers {sorted(expected)}")

    def admin(self, servers: str | None = None) -> AdminClient:
        """An admin client of these servers, else of all; the same one for every call."""
        wanted = servers or self.bootstrap_servers
        if wanted not in self._admins:
            quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}
            self._admins[wanted] = AdminClient({"bootstrap.servers": wanted, **quick})
        return self._admins[wanted]

    def create_topic(self, name: str, partitions: int, assignment: list[list[int]] | None = None) -> None:
        """Create a topic with up to three replicas, or on these brokers, and wait until all are in sync."""
        if assignment is None:
            topic = NewTopic(name, partitions, min(3, len(self.brokers)))
        else:
            topic = NewTopic(name, partitions, replica_assignment=assignment)
        self.admin().create_topics([topic])[name].result(120)
        self.wait_in_sync([name])

    def partition_states(self, server: str, topics: Sequence[str]) -> list[tuple[int, set[int], set[int]]]:
        """(leader, replicas, in-sync replicas) of each partition as a server sees it; nothing if it lacks a topic."""
        with contextlib.suppress(KafkaException):
            found = self.admin(server).list_topics(timeout=5).topics
            partitions = [found[name].partitions for name in topics if name in found]
            if len(partitions) == len(topics):
                return [(p.leader, set(p.replicas), set(p.isrs)) for each in partitions for p in each.values()]
        return []

    def wait_in_sync(self, topics: Sequence[str], *, timeout_s: float = PATIENCE_S) -> None:
        """Wait until every broker reports that all replicas of the topics are in sync and all partitions led."""

        def whole(server: str) -> bool:
            states = self.partition_states(server, topics)
            return bool(states) and all(leader >= 0 and replicas == isr for leader, replicas, isr in states)

        title = f"all replicas of {', '.join(topics)} are in sync"
        try:
            wait_until(lambda: all(map(whole, self.server_list)), title, timeout_s=timeout_s)
        except NodeError as error:
            seen = {server: self.partition_states(server, topics) for server in self.server_list}
            raise NodeError(f"{error}: {seen}") from None

    def quorum(self) -> QuorumDescription:
        """Describe the quorum; raises CrabkaError if no node answers."""
        return describe_quorum(self.server_list)

    def active_controller(self) -> int:
        """Node id of the active controller, once there is one."""

        def leader() -> int:
            with contextlib.suppress(CrabkaError):
                return self.quorum().leader_id
            return -1

        return wait_until(lambda: max(leader(), 0), "the quorum has a leader")

    def wait_voters_caught_up(self, *, most_behind: int = 50) -> None:
        """Wait until every voter is near the end of the metadata log, so that losing one leaves a majority."""

        def caught_up() -> bool:
            with contextlib.suppress(CrabkaError):
                found = self.quorum()
                return all(end >= found.high_watermark - most_behind for end in found.voters.values())
            return False

        wait_until(caught_up, "all voters have caught up")

    def cut(self, node_ids: Collection[int]) -> None:
        """Separate these nodes from the others; clients reach all of them."""
        self.network.cut(node_ids)
        self._cut_off = frozenset(node_ids)

    def heal(self) -> None:
        """Put all nodes back together."""
        self.network.heal()
        self._cut_off = frozenset()

    def close(self) -> None:
        """Kill all nodes and remove the network."""
        self._admins.clear()
        for node in self.nodes.values():
            node.kill()
        self.network.close()

    def _place(self, node_id: int) -> NodePlace:
        net = self.network
        net.add_node(node_id)
        ports = (net.new_port(), net.new_port(), net.new_port())
        return NodePlace(net.client_host(node_id), net.cluster_host(node_id), *ports, net.command_prefix(node_id))

    def __enter__(self) -> Self:
        """Format and start."""
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        self.close()
