"""The overview of a node, and of brokers that cannot be reached."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.finding import NotApplicableError
from crabka.cli.doctor.gathering.overview import Configs, Overview, topic_configs
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigValue
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.metadata import BrokerEndpoint
from tests.unit.cli.conftest import RunCommand
from tests.unit.cli.doctor.conftest import Gather


async def _identity(_: Cluster, overview: Overview) -> Overview:
    return overview


def test_a_node_is_seen_with_its_topics_and_settings(gathered: Gather[Overview], on_broker: RunCommand) -> None:
    on_broker("topics", "create", "seen")
    overview = gathered(_identity)
    assert [each.node_id for each in overview.active] == overview.reachable == [1]
    assert overview.is_crabka
    assert "seen" in overview.topics
    assert overview.broker_setting("process.roles") == {1: "broker,controller"}
    assert overview.broker_setting("crabka.http.listener") == {}
    overview.require_coordinators()


def test_settings_of_topics_come_in_one_answer(gathered: Gather[dict[str, Configs]], on_broker: RunCommand) -> None:
    on_broker("topics", "create", "kept", "-c", "retention.ms=7d")

    async def ask(cluster: Cluster, _: Overview) -> dict[str, Configs]:
        return await topic_configs(Admin(cluster), ["kept", "gone"], ["retention.ms"])

    found = gathered(ask)
    assert {name: {key: each.value for key, each in configs.items()} for name, configs in found.items()} == {
        "kept": {"retention.ms": "604800000"}
    }


def test_brokers_that_are_fenced_or_silent_are_distinguished() -> None:
    brokers = [BrokerEndpoint(node, "h", node) for node in (3, 1, 2)]
    setting = ConfigValue("log.dirs", "/a", 4, False, False, 0, None, ())
    overview = Overview("c", brokers, frozenset({3}), {}, {1: {"log.dirs": setting}}, [2])
    assert [each.node_id for each in overview.active] == [1, 2]
    assert overview.reachable == [1]
    assert not overview.is_crabka
    with pytest.raises(NotApplicableError, match="broker 2 cannot be reached"):
        overview.require_coordinators()
