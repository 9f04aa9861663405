"""The settings that count for a node and its topics."""

from __future__ import annotations

from crabka.broker.config_view import EffectiveConfigs, broker_layers
from tests.support.sim_node import SimNode


def test_dynamic_settings_lie_over_those_of_the_file(node: SimNode) -> None:
    node.create_topic("t", segment_ms="11")
    configs = EffectiveConfigs(node.config)
    assert configs.server(node.context.image).message_max_bytes == node.config.message_max_bytes
    node.set_configs(4, "", message_max_bytes="100", log_roll_ms="7")
    node.set_configs(4, "1", message_max_bytes="200")
    image = node.context.image
    assert configs.server(image).message_max_bytes == 200
    topic = configs.topic(image, "t")
    assert (topic.max_message_bytes, topic.segment_ms) == (200, 11)
    assert configs.topic(image, "unknown").segment_ms == 7


def test_settings_are_parsed_once_while_nothing_changes(node: SimNode) -> None:
    configs = EffectiveConfigs(node.config)
    before = configs.server(node.context.image)
    node.create_topic("t")
    assert configs.server(node.context.image) is before
    node.set_configs(4, "", message_max_bytes="100")
    assert configs.server(node.context.image) is not before


def test_layers_know_their_sources(node: SimNode) -> None:
    node.set_configs(4, "1", message_max_bytes="200")
    layers = broker_layers(node.config, node.context.image)
    assert dict(layers.dynamic_broker) == {"message.max.bytes": "200"}
    assert dict(layers.dynamic_default) == {"min.insync.replicas": "1"}
