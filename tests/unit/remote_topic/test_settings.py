"""Settings of the metadata topic: Kafka's names and defaults."""

from __future__ import annotations

import pytest

from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.remote_topic.settings import METADATA_TOPIC_KEYS, RemoteTopicSettings


def test_defaults_are_those_of_kafka() -> None:
    settings = RemoteTopicSettings.from_properties({})
    assert settings == RemoteTopicSettings()
    assert (settings.num_partitions, settings.replication_factor, settings.min_isr) == (50, 3, 2)
    assert (settings.retention_ms, settings.consume_wait_ms) == (-1, 120_000)
    assert settings.initialization_retry_interval_ms == 100
    assert settings.initialization_retry_max_timeout_ms == 120_000


def test_every_key_reaches_its_field() -> None:
    properties = {name: str(number) for number, name in enumerate(METADATA_TOPIC_KEYS, start=11)}
    settings = RemoteTopicSettings.from_properties(properties)
    values = [getattr(settings, name) for name in RemoteTopicSettings.__slots__ if name != "security"]
    assert sorted(values) == list(range(11, 11 + len(METADATA_TOPIC_KEYS)))
    assert settings.num_partitions == int(properties["remote.log.metadata.topic.num.partitions"])


def test_keys_are_taken_from_the_settings_of_a_node() -> None:
    properties = {
        **one_node_properties("/d", "127.0.0.1", 0),
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.metadata.topic.num.partitions": "7",
    }
    config, _ = ServerConfig.from_properties(properties)
    assert RemoteTopicSettings.from_server(config) == RemoteTopicSettings(replication_factor=1)
    properties["remote.log.metadata.manager.impl.prefix"] = "mine."
    properties["mine.remote.log.metadata.consume.wait.ms"] = "5"
    config, _ = ServerConfig.from_properties(properties)
    assert RemoteTopicSettings.from_server(config) == RemoteTopicSettings(consume_wait_ms=5)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("remote.log.metadata.topic.num.partitions", "0"),
        ("remote.log.metadata.topic.replication.factor", "many"),
        ("remote.log.metadata.topic.min.isr", "0"),
        ("remote.log.metadata.topic.retention.ms", "0"),
        ("remote.log.metadata.topic.retention.ms", "-2"),
        ("remote.log.metadata.consume.wait.ms", "-1"),
    ],
)
def test_values_that_kafka_refuses_are_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        RemoteTopicSettings.from_properties({name: text})


@pytest.mark.parametrize(
    "name",
    [
        "remote.log.metadata.producer.sasl.jaas.config",
        "remote.log.metadata.consumer.ssl.keystore.location",
        "remote.log.metadata.admin.sasl.mechanism",
    ],
)
def test_security_of_clients_is_refused_rather_than_forgotten(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not supported"):
        RemoteTopicSettings.from_properties({name: "x"})


def test_security_of_all_clients_is_theirs() -> None:
    prefix = "remote.log.metadata.common.client."
    settings = RemoteTopicSettings.from_properties(
        {f"{prefix}security.protocol": "SASL_PLAINTEXT", f"{prefix}sasl.password": "canary", f"{prefix}linger.ms": "5"}
    )
    assert settings.security == {"security.protocol": "SASL_PLAINTEXT", "sasl.password": "canary"}
    assert "canary" not in repr(settings)


def test_other_client_settings_are_left_out() -> None:
    assert RemoteTopicSettings.from_properties({"remote.log.metadata.producer.linger.ms": "5"}) == RemoteTopicSettings()


def test_the_topic_keeps_everything_and_is_not_tiered_itself() -> None:
    assert RemoteTopicSettings().topic_configs() == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "min.insync.replicas": "2",
        "flush.messages": "1",
        "remote.storage.enable": "false",
    }
    assert RemoteTopicSettings(retention_ms=5).topic_configs()["retention.ms"] == "5"


def test_the_retention_says_what_it_takes() -> None:
    validator = METADATA_TOPIC_KEYS["remote.log.metadata.topic.retention.ms"].validator
    assert validator is not None
    assert validator.describe() == "-1 or [1,...]"
