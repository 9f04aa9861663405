"""Properties of the nodes of a cluster on one machine: what `crabka cluster demo` starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HOST = "127.0.0.1"
_MOST_REPLICAS = 3


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
