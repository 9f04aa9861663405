"""Properties of nodes that make up a cluster."""

from __future__ import annotations

import pytest

from crabka.config.many_nodes import NodePorts, combined_node_properties
from crabka.config.server import ServerConfig

NODES = [NodePorts(number, 9000 + number, 9100 + number) for number in (1, 2, 3, 4)]


def test_nodes_know_their_quorum_and_differ_in_their_own_addresses() -> None:
    properties = combined_node_properties(NODES[1], NODES[:3], "/d")
    config, warnings = ServerConfig.from_properties(properties)
    assert warnings == []
    assert (config.node_id, set(config.process_roles)) == (2, {"broker", "controller"})
    assert [str(listener) for listener in config.listeners] == [
        "PLAINTEXT://127.0.0.1:9002",
        "CONTROLLER://127.0.0.1:9102",
    ]
    assert config.controller_quorum_bootstrap_servers == ("127.0.0.1:9101", "127.0.0.1:9102", "127.0.0.1:9103")


@pytest.mark.parametrize(("count", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 3, 2)])
def test_topics_get_as_many_replicas_as_make_sense(count: int, replicas: int, in_sync: int) -> None:
    config, _ = ServerConfig.from_properties(combined_node_properties(NODES[0], NODES[:count], "/d"))
    assert config.default_replication_factor == replicas
    assert config.value("min.insync.replicas") == in_sync
    assert config.offsets_topic_replication_factor == replicas
