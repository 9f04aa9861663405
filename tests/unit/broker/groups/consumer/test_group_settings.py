"""Settings of a group over those of the node."""

from __future__ import annotations

from crabka.broker.groups.consumer.settings import ConsumerSettings
from crabka.metadata.configs import ConfigResourceType
from tests.support.sim_node import SimNode


def test_a_groups_own_settings_count_first(node: SimNode) -> None:
    assert node.context.groups.consumer_settings("g") == ConsumerSettings()
    node.set_configs(
        ConfigResourceType.GROUP,
        "g",
        **{"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"},
    )
    settings = node.context.groups.consumer_settings("g")
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (50_000, 6_000)
    assert node.context.groups.consumer_settings("other") == ConsumerSettings()
