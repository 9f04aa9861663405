"""DescribeConfigs must report what Apache Kafka reports: compared with answers recorded from a real one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from crabka.config.resolve import (
    BrokerLayers,
    ConfigEntry,
    ConfigSource,
    Synonym,
    describe_broker_configs,
    describe_broker_loggers,
    describe_client_metrics_configs,
    describe_group_configs,
    describe_topic_configs,
)
from crabka.config.server import ServerConfig
from tests.support.recorded.files import GOLDEN
from tests.unit.config.nodes import server

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TYPES = ("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")
# The first metadata transaction of a cluster with eligible leader replicas sets this one for all brokers.
_CLUSTER_DEFAULT = {"min.insync.replicas": "1"}
_LAYERS: dict[str, Any] = json.loads((GOLDEN / "broker_config_layers.json").read_text())


def _golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / name).read_text())
    return content


def _as_golden(entries: Iterable[ConfigEntry]) -> dict[str, Any]:
    return {
        entry.name: {
            "read_only": entry.read_only,
            "sensitive": entry.is_sensitive,
            "source": entry.source.name,
            "synonyms": [{"name": s.name, "source": s.source.name, "value": s.value} for s in entry.synonyms],
            "type": _TYPES[entry.type],
            "value": entry.value,
        }
        for entry in entries
    }


def _as_rows(entries: Iterable[ConfigEntry]) -> dict[str, Any]:
    return {
        entry.name: [
            entry.value,
            entry.source,
            entry.type,
            entry.read_only,
            entry.is_sensitive,
            [list(synonym) for synonym in entry.synonyms],
        ]
        for entry in entries
    }


def _golden_server() -> ServerConfig:
    """The settings of the node that gave golden/broker_configs.json, read back from its own answer."""
    static = {
        name: entry["value"] or "hidden"
        for name, entry in _golden("broker_configs.json").items()
        if entry["source"] == "STATIC_BROKER_CONFIG" and name != "broker.id"
    }
    return ServerConfig.from_properties(static, insecure_ignore_security=True)[0]


def _only(entries: Iterable[ConfigEntry], name: str) -> ConfigEntry:
    return next(entry for entry in entries if entry.name == name)


def test_topic_without_settings_is_described_as_kafka_does() -> None:
    described = _as_golden(describe_topic_configs({}, _golden_server(), {}, _CLUSTER_DEFAULT))
    kafkas = {name: entry for name, entry in described.items() if not name.startswith("crabka.")}
    assert kafkas == _golden("topic_configs.json")


def test_broker_is_described_as_kafka_does() -> None:
    described = _as_golden(describe_broker_configs(_golden_server(), {}, _CLUSTER_DEFAULT))
    own = {name: entry for name, entry in described.items() if name.startswith("crabka.")}
    assert set(own) == {
        "crabka.fast.failure.detection.enable",
        "crabka.http.listener",
        "crabka.log.scrub.enable",
        "crabka.log.scrub.interval.ms",
        "crabka.log.scrub.max.bytes.per.second",
        "crabka.log.scrub.max.cpu.percent",
        "crabka.log.scrub.now",
        "crabka.remote.chunk.cache.bytes",
        "crabka.remote.leftover.grace.ms",
        "crabka.remote.verified.ttl.ms",
        "crabka.slow.append.ms",
        "crabka.validate.records",
    }
    expected = _golden("broker_configs.json")
    # Where the tier is, Kafka hides with all that it does not know, and Crabka shows.
    tier = expected["rsm.config.dir"]
    tier |= {"value": "hidden", "sensitive": False, "synonyms": [tier["synonyms"][0] | {"value": "hidden"}]}
    assert {name: entry for name, entry in described.items() if name not in own} == expected


@pytest.mark.parametrize("case", _LAYERS)
def test_layers_of_broker_settings_are_those_of_kafka(case: str) -> None:
    """Made by tools/record_broker_configs.py; each case is stored by what differs from the first one."""
    whole, recorded = next(iter(_LAYERS.values()))["broker"], _LAYERS[case]
    node = ServerConfig.from_properties(recorded["properties"], insecure_ignore_security=True)[0]
    layers = BrokerLayers(node, recorded["dynamic_broker"], recorded["dynamic_default"])
    missing = recorded.get("missing", ())
    expected = {name: row for name, row in (whole | recorded["broker"]).items() if name not in missing}
    described = [entry for entry in layers.describe_broker() if not entry.name.startswith("crabka.")]
    assert _as_rows(described) == expected
    assert _as_rows(layers.describe_cluster_default()) == recorded["cluster_default"]


def test_unknown_group_is_described_as_kafka_does() -> None:
    assert _as_golden(describe_group_configs({}, _golden_server(), {}, {})) == _golden("group_configs.json")


def test_unknown_subscription_is_described_as_kafka_does() -> None:
    assert _as_golden(describe_client_metrics_configs({})) == _golden("client_metrics_configs.json")


def test_every_known_setting_has_a_text_of_its_own() -> None:
    for entry in describe_broker_configs(server(), {}, {}):
        assert entry.doc


def test_topic_setting_lies_over_dynamic_static_and_default() -> None:
    entries = describe_topic_configs(
        {"retention.bytes": "4"},
        server(log_retention_bytes="1"),
        {"log.retention.bytes": "3"},
        {"log.retention.bytes": "2"},
    )
    entry = _only(entries, "retention.bytes")
    assert (entry.value, entry.source, entry.is_default) == ("4", ConfigSource.DYNAMIC_TOPIC_CONFIG, False)
    assert entry.synonyms == (
        Synonym("retention.bytes", "4", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        Synonym("log.retention.bytes", "3", ConfigSource.DYNAMIC_BROKER_CONFIG),
        Synonym("log.retention.bytes", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        Synonym("log.retention.bytes", "1", ConfigSource.STATIC_BROKER_CONFIG),
        Synonym("log.retention.bytes", "-1", ConfigSource.DEFAULT_CONFIG),
    )


def test_broker_own_setting_wins_over_the_cluster_default() -> None:
    entries = describe_topic_configs({}, server(), {"log.retention.bytes": "3"}, {"log.retention.bytes": "2"})
    assert _only(entries, "retention.bytes").value == "3"


def test_retention_in_hours_changes_the_topic_value_without_a_synonym() -> None:
    entry = _only(describe_topic_configs({}, server(log_retention_hours="2"), {}, {}), "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("7200000", ConfigSource.DEFAULT_CONFIG, ())


def test_retention_in_ms_lists_the_weaker_units_behind_it() -> None:
    node = server(log_retention_hours="2", log_retention_ms="5")
    entry = _only(describe_topic_configs({}, node, {}, {}), "retention.ms")
    assert entry.value == "5"
    assert entry.synonyms == (
        Synonym("log.retention.ms", "5", ConfigSource.STATIC_BROKER_CONFIG),
        Synonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    )


@pytest.mark.parametrize(("overrides", "listed"), [({}, False), ({"internal.segment.bytes": "64"}, True)])
def test_internal_topic_setting_is_listed_only_where_set(overrides: Mapping[str, str], *, listed: bool) -> None:
    names = {entry.name for entry in describe_topic_configs(overrides, server(), {}, {})}
    assert ("internal.segment.bytes" in names) is listed


def test_internal_broker_setting_is_listed_only_where_set() -> None:
    assert "log.initial.task.delay.ms" not in {e.name for e in describe_broker_configs(server(), {}, {})}
    entry = _only(describe_broker_configs(server(log_initial_task_delay_ms="5"), {}, {}), "log.initial.task.delay.ms")
    assert entry.value == "5"


def test_unknown_broker_setting_is_hidden() -> None:
    node = ServerConfig.from_properties({**server().static, "my.plugin.password": "secret"})[0]
    entry = _only(describe_broker_configs(node, {}, {}), "my.plugin.password")
    assert (entry.value, entry.is_sensitive, entry.read_only) == (None, True, True)
    assert entry.synonyms == (Synonym("my.plugin.password", None, ConfigSource.STATIC_BROKER_CONFIG),)


def test_where_the_tier_is_is_shown_and_its_keys_are_not() -> None:
    settings = {"rsm.config.bucket": "cold", "rsm.config.secret.access.key": "secret"}
    node = ServerConfig.from_properties({**server().static, **settings})[0]
    entries = describe_broker_configs(node, {}, {})
    assert _only(entries, "rsm.config.bucket").value == "cold"
    assert _only(entries, "rsm.config.secret.access.key").value is None


def test_dynamic_throttle_rate_is_shown_on_the_broker_that_has_it() -> None:
    entry = _only(
        describe_broker_configs(server(), {"leader.replication.throttled.rate": "7"}, {}),
        "leader.replication.throttled.rate",
    )
    assert (entry.value, entry.source) == ("7", ConfigSource.DYNAMIC_BROKER_CONFIG)


def test_cluster_default_lists_only_what_is_set() -> None:
    entries = BrokerLayers(server(), {}, {"log.retention.ms": "9", "plugin.secret": "x"}).describe_cluster_default()
    assert [(e.name, e.value, e.is_sensitive) for e in entries] == [
        ("log.retention.ms", "9", False),
        ("plugin.secret", None, True),
    ]
    assert entries[0].synonyms == (Synonym("log.retention.ms", "9", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),)


def test_group_setting_lies_over_the_broker_value() -> None:
    entries = describe_group_configs({"consumer.session.timeout.ms": "50000"}, server(), {}, {})
    entry = _only(entries, "consumer.session.timeout.ms")
    assert (entry.value, entry.source) == ("50000", ConfigSource.GROUP_CONFIG)
    assert [s.name for s in entry.synonyms] == ["consumer.session.timeout.ms", "group.consumer.session.timeout.ms"]


def test_subscription_setting_has_its_own_source() -> None:
    entry = _only(describe_client_metrics_configs({"interval.ms": "1000"}), "interval.ms")
    assert (entry.value, entry.source) == ("1000", ConfigSource.CLIENT_METRICS_CONFIG)


def test_loggers_are_listed_by_name_with_their_level() -> None:
    entries = describe_broker_loggers({"root": "INFO", "crabka.log": "DEBUG"})
    assert [(e.name, e.value, e.source) for e in entries] == [
        ("crabka.log", "DEBUG", ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG),
        ("root", "INFO", ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG),
    ]
