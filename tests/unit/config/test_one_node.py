"""Properties of a node that is alone."""

from __future__ import annotations

from crabka.config.listeners import ListenerAddress
from crabka.config.one_node import one_node_properties
from crabka.config.server import ServerConfig


def test_properties_of_a_lone_node_are_complete_and_need_no_second_replica() -> None:
    config, warnings = ServerConfig.from_properties(one_node_properties("data", "::1", 0, node_id=7))
    assert warnings == []
    assert (config.node_id, config.log_dirs) == (7, ("data",))
    assert config.broker_listeners == (ListenerAddress("PLAINTEXT", "::1", 0),)
    assert config.offsets_topic_replication_factor == 1
    assert (config.transaction_state_log_replication_factor, config.transaction_state_log_min_isr) == (1, 1)
