"""The manager of the metadata topic as a part of a broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.broker.tiering.metadata.topic import MetadataTopicHost
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.formats.file_names import REMOTE_INDEX_CACHE, parse_directory_name
from crabka.metadata.cluster import Endpoint
from crabka.remote_topic.snapshot import snapshot_path
from crabka.security.sasl.listener_rules import PLAIN_MODULE
from crabka.testing import VirtualTimeLoop
from tests.support.nodes.sim_node import SimNode
from tests.support.nodes.tiered import TIER_SETTINGS, TIERED_TOPIC, fill, manager_of, tiered_node


def host_of(node: SimNode) -> MetadataTopicHost:
    tiering = node.context.tiering
    assert tiering is not None
    return tiering.topic


def test_a_broker_looks_after_the_partitions_of_the_topic_that_it_leads() -> None:
    with tiered_node() as node:
        node.create_topic("t", remote_storage_enable="true")
        node.advance(10_000)
        assert manager_of(node).is_ready
        manager: Any = host_of(node)._manager
        assert sorted(manager._assignment.own) == [0, 1, 2]
        assert manager.status().ready == 3


def test_it_is_notified_of_leaders_that_change() -> None:
    with tiered_node() as node:
        node.advance(10_000)
        host = host_of(node)
        reported: list[list[int]] = []

        class Manager:
            def set_own_metadata_partitions(self, numbers: list[int]) -> None:
                reported.append(numbers)

        manager: Any = Manager()
        kept, host._manager = host._manager, manager
        topic = node.context.image.topics.by_name["__remote_log_metadata"]

        class Delta:
            topics_created: frozenset[object] = frozenset()
            topics_changed: frozenset[object] = frozenset({topic.topic_id})

        delta: Any = Delta()
        host.on_metadata(delta, node.context.image)
        assert reported == [[0, 1, 2]]
        Delta.topics_changed = frozenset()
        host.on_metadata(delta, node.context.image)
        assert len(reported) == 1
        host._manager = kept


def test_a_stop_leaves_a_snapshot_for_the_next_start() -> None:
    with tiered_node() as node:
        node.create_topic("t", **TIERED_TOPIC)
        fill(node, "t", 3)
        node.advance(10_000)
        node.stop()
        assert any(node.memory.exists(snapshot_path("/d1", number)) for number in range(3))
        node.start()
        node.advance(10_000)
        assert manager_of(node).is_ready


def test_no_directory_is_left_that_keeps_kafka_from_taking_a_log_dir_over() -> None:
    with tiered_node() as node:
        node.create_topic("t", **TIERED_TOPIC)
        fill(node, "t", 3)
        node.advance(10_000)
        node.stop()
        directories = [name for name in node.memory.listdir("/d1") if node.memory.stat(f"/d1/{name}").is_dir]
        strange = [name for name in directories if parse_directory_name(name) is None]
        assert set(strange) <= {REMOTE_INDEX_CACHE}


def lone_host(settings: dict[str, str]) -> MetadataTopicHost:
    with tiered_node() as node:
        config, _ = ServerConfig.from_properties({**node.config.static, **settings})
        image = node.context.image
        return MetadataTopicHost(config, node.runtime, image=lambda: image, on_failure=lambda _error: None)


def test_the_address_is_that_of_the_listener_between_brokers_or_of_the_one_that_is_named() -> None:
    endpoints = [Endpoint("PLAINTEXT", "a", 1, 0), Endpoint("EXTERNAL", "::1", 2, 0)]
    between = lone_host({})
    between.endpoints = endpoints
    assert between._bootstrap() == "a:1"
    named = lone_host({"remote.log.metadata.manager.listener.name": "EXTERNAL"})
    named.endpoints = endpoints
    assert named._bootstrap() == "[::1]:2"


def test_a_listener_that_is_not_there_is_reported() -> None:
    host = lone_host({"remote.log.metadata.manager.listener.name": "NOWHERE"})
    with pytest.raises(ConfigError, match="NOWHERE"):
        VirtualTimeLoop().run(host.start())
    VirtualTimeLoop().run(host.stop())


def test_wrong_settings_of_the_topic_are_reported_at_the_start() -> None:
    assert "rlmm.config.remote.log.metadata.topic.num.partitions" in TIER_SETTINGS
    with pytest.raises(ConfigError):
        lone_host({"rlmm.config.remote.log.metadata.topic.num.partitions": "0"})


LOG_INS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="node" password="canary" user_node="canary" user_tier="t1er";'
    ),
}
COMMON = "rlmm.config.remote.log.metadata.common.client."
AS_TIER = {
    f"{COMMON}security.protocol": "SASL_PLAINTEXT",
    f"{COMMON}sasl.mechanism": "PLAIN",
    f"{COMMON}sasl.jaas.config": f'{PLAIN_MODULE} required username="tier" password="t1er";',
}


@pytest.mark.parametrize("settings", [LOG_INS, {**LOG_INS, **AS_TIER}])
def test_it_logs_in_where_the_broker_expects_it(settings: dict[str, str]) -> None:
    with tiered_node(settings) as node:
        node.advance(20_000)
        assert manager_of(node).is_ready
        assert node.node is not None
        assert node.node.listeners.logins.login_count
        assert not node.node.listeners.logins.refusal_count


def test_its_own_log_in_is_refused_at_start_where_it_is_wrong() -> None:
    wrong = {**LOG_INS, **AS_TIER, f"{COMMON}sasl.mechanism": "GSSAPI"}
    node = tiered_node(wrong)
    with pytest.raises(ConfigError, match=r"sasl.mechanism: GSSAPI is not supported"):
        node.start()
    node.loop.run(asyncio.sleep(0))
