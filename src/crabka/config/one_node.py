"""Properties of a node that is alone: what `crabka up` and the embedded broker start from."""

from __future__ import annotations

from crabka.config.listeners import format_address


def one_node_properties(data_dir: str, host: str, port: int, *, node_id: int = 1) -> dict[str, str]:
    """Return the properties of a combined node whose internal topics need no second replica.

    Port 0 picks a free port. The controller listener is on the loopback interface and on a free port, since nobody
    else needs it.
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
