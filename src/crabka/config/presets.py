"""Properties of nodes on one machine: `crabka up`, the embedded broker, `crabka cluster demo`, and `--tier` of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crabka.config.listeners import format_address

HOST = "127.0.0.1"
_MOST_REPLICAS = 3
# With a tier on one machine, segments are copied and leave the disk within seconds.
_TASK_INTERVAL_MS = 1_000
_RETENTION_CHECK_MS = 5_000


def one_node_properties(data_dir: str, host: str, port: int, *, node_id: int = 1) -> dict[str, str]:
    """Return the properties of a combined node whose internal topics need no second replica.

    Port 0 picks a free port. The controller listener is on the loopback interface and on a free port, since no
    other process needs it.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{format_address(host, port)},CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": data_dir,
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


class NodePorts(NamedTuple):
    """A node and the two ports that it listens on."""

    node_id: int
    broker_port: int
    controller_port: int

    @property
    def broker_address(self) -> str:
        """Where clients reach the node."""
        return f"{HOST}:{self.broker_port}"

    @property
    def controller_address(self) -> str:
        """Where the other nodes reach its controller."""
        return f"{HOST}:{self.controller_port}"


def combined_node_properties(node: NodePorts, nodes: Sequence[NodePorts], data_dir: str) -> dict[str, str]:
    """Return the properties of a node that is broker and controller, one of `nodes`.

    Topics get three replicas, as far as there are nodes, and writes with acks=all survive the loss of any one node.
    """
    replicas = min(_MOST_REPLICAS, len(nodes))
    in_sync = max(1, replicas - 1)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "listeners": f"PLAINTEXT://{node.broker_address},CONTROLLER://{node.controller_address}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": ",".join(each.controller_address for each in nodes),
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": data_dir,
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
    }


def tiered_node_properties(storage: Mapping[str, str], *, node_count: int = 1) -> dict[str, str]:
    """Return the properties of a node that keeps a tier in a storage, which is named by properties of its own.

    The metadata topic gets three replicas, as far as there are nodes.
    """
    replicas = min(_MOST_REPLICAS, node_count)
    return {
        "remote.log.storage.system.enable": "true",
        **storage,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
        "rlmm.config.remote.log.metadata.topic.min.isr": str(max(1, replicas - 1)),
        "remote.log.manager.task.interval.ms": str(_TASK_INTERVAL_MS),
        "log.retention.check.interval.ms": str(_RETENTION_CHECK_MS),
        "log.initial.task.delay.ms": str(_TASK_INTERVAL_MS),
    }
