"""The settings that count for a node and its topics."""

from __future__ import annotations

import pytest

from crabka.metadata.records import ConfigRecord
from crabka.serving.config_view import EffectiveConfigs, broker_layers
from tests.support.nodes.sim_node import SimNode, batch


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


def write(node: SimNode, kind: int, name: str, key: str, value: str) -> None:
    async def append() -> None:
        await node.context.quorum.append([ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)])

    node.run(append())


def test_a_stored_setting_of_the_node_that_cannot_be_read_changes_nothing(
    node: SimNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.create_topic("t")
    node.set_configs(4, "", message_max_bytes="100")
    write(node, 4, "", "log.roll.ms", "soon")
    assert node.context.config.message_max_bytes == 100
    assert "the last valid ones stay in force" in caplog.text
    node.restart()
    assert node.produce("t", batch(b"a")).error_code == 0


def test_a_stored_setting_that_no_longer_exists_is_passed_over(node: SimNode) -> None:
    node.create_topic("t", segment_ms="11")
    write(node, 2, "t", "message.format.version", "2.8")
    node.restart()
    assert node.context.partitions.by_name("t", 0).log.config.segment_ms == 11


def test_layers_know_their_sources(node: SimNode) -> None:
    node.set_configs(4, "1", message_max_bytes="200")
    layers = broker_layers(node.config, node.context.image)
    assert dict(layers.dynamic_broker) == {"message.max.bytes": "200"}
    assert dict(layers.dynamic_default) == {"min.insync.replicas": "1"}
