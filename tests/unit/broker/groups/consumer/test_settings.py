"""Settings of consumer groups."""

from __future__ import annotations

import pytest

from crabka.broker.groups.consumer.settings import ConsumerSettings, MigrationPolicy
from crabka.metadata.configs import ConfigResourceType
from tests.support.nodes.sim_node import SimNode


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [("disabled", False, False), ("upgrade", True, False), ("downgrade", False, True), ("bidirectional", True, True)],
)
def test_a_policy_says_which_way_groups_may_move(policy: str, *, up: bool, down: bool) -> None:
    chosen = MigrationPolicy(policy)
    assert (chosen.allows_upgrade, chosen.allows_downgrade) == (up, down)


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
