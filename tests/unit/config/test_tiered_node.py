"""Properties of nodes with a remote tier."""

from __future__ import annotations

import pytest

from crabka.config.one_node import one_node_properties
from crabka.config.server import ServerConfig
from crabka.config.tiered_node import tiered_node_properties

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
