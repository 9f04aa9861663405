"""Properties of nodes on one machine."""

from __future__ import annotations

import pytest

from crabka.config.listeners import ListenerAddress
from crabka.config.presets import NodePorts, combined_node_properties, one_node_properties, tiered_node_properties
from crabka.config.server import ServerConfig


def test_properties_of_a_lone_node_are_complete_and_need_no_second_replica() -> None:
    config, warnings = ServerConfig.from_properties(one_node_properties("data", "::1", 0, node_id=7))
    assert warnings == []
    assert (config.node_id, config.log_dirs) == (7, ("data",))
    assert config.broker_listeners == (ListenerAddress("PLAINTEXT", "::1", 0),)
    assert config.offsets_topic_replication_factor == 1
    assert (config.transaction_state_log_replication_factor, config.transaction_state_log_min_isr) == (1, 1)


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


STORAGE = {"remote.log.storage.manager.class.name": "local", "rsm.config.dir": "tier"}


def test_a_lone_node_with_a_tier_is_a_valid_node() -> None:
    properties = one_node_properties("data", "127.0.0.1", 0) | tiered_node_properties(STORAGE)
    config, warnings = ServerConfig.from_properties(properties)
    assert config.remote_log_storage_system_enable
    assert config.remote_log_storage_manager_class_name == "local"
    assert config.remote_log_metadata_manager_listener_name == "PLAINTEXT"
    assert config.prefixed(config.remote_log_storage_manager_impl_prefix) == {"dir": "tier"}
    assert warnings == []


@pytest.mark.parametrize(
    ("node_count", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_the_metadata_topic_has_replicas_as_far_as_there_are_nodes(
    node_count: int, replicas: str, in_sync: str
) -> None:
    properties = tiered_node_properties(STORAGE, node_count=node_count)
    prefix = "rlmm.config.remote.log.metadata.topic."
    assert (properties[f"{prefix}replication.factor"], properties[f"{prefix}min.isr"]) == (replicas, in_sync)
