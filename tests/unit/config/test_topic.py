"""Settings of topics: defaults, overrides and contradictions."""

from __future__ import annotations

import dataclasses
import json

import pytest

from crabka.config.keys import ConfigKey, to_text
from crabka.config.topic import TOPIC_KEYS, TopicConfig, check_remote_storage, field_name
from crabka.errors import ConfigError
from tests.support.recorded.files import GOLDEN


def test_fields_are_the_keys_with_the_same_defaults() -> None:
    defaults = dataclasses.asdict(TopicConfig())
    declared = {field_name(name): key.default_value for name, key in TOPIC_KEYS.items()}
    assert defaults.pop("cleanup_policy") == frozenset({"delete"})
    assert declared.pop("cleanup_policy") == ("delete",)
    assert defaults == declared


# Settings of topics that only Crabka has.
OWN_KEYS: frozenset[str] = frozenset()


def test_settings_that_kafka_lacks_have_a_prefix() -> None:
    assert {name for name in TOPIC_KEYS if name.startswith("crabka.")} == OWN_KEYS


def _parsed(key: ConfigKey, text: str) -> str:
    try:
        return f"OK {to_text(key.parse(text))}"
    except ConfigError as error:
        return f"ERR {error}"


def test_every_text_is_taken_or_refused_as_kafka_does_it() -> None:
    """The file holds what Apache Kafka 4.3.0 makes of each text as the value of each key."""
    answers = json.loads((GOLDEN / "topic_config_parsing.json").read_text())
    assert set(answers) == set(TOPIC_KEYS) - OWN_KEYS
    # Kafka keeps a repeated or empty replica in these lists, where it has no meaning; here it is dropped or refused.
    for name in ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"):
        assert answers[name].pop(",") == "OK ,"
        assert answers[name].pop("a, a").startswith("ERR Invalid value [a, a]")
    ours = {name: {text: _parsed(TOPIC_KEYS[name], text) for text in texts} for name, texts in answers.items()}
    assert ours == answers


def test_overrides_are_parsed_over_the_given_defaults() -> None:
    base = TopicConfig(retention_ms=1, segment_ms=2)
    config = TopicConfig.from_overrides({"segment.ms": "3", "cleanup.policy": "compact, delete"}, base)
    assert (config.retention_ms, config.segment_ms) == (1, 3)
    assert config.compact
    assert config.delete


def test_empty_cleanup_policy_neither_deletes_nor_compacts() -> None:
    config = TopicConfig.from_overrides({"cleanup.policy": ""})
    assert not config.compact
    assert not config.delete


def test_internal_segment_size_wins_and_may_be_small() -> None:
    assert TopicConfig().effective_segment_bytes == 1 << 30
    assert TopicConfig.from_overrides({"internal.segment.bytes": "64"}).effective_segment_bytes == 64


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"segment.bytes": "1"}, "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
    ],
)
def test_bad_settings_are_refused_in_kafkas_words(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TopicConfig.from_overrides(overrides)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cleanup.policy": "compact"},
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
        ),
        (
            {"retention.ms": "5", "local.retention.ms": "10"},
            (
                "Invalid value 10 for configuration local.retention.ms: "
                "Value must not be more than retention.ms property value: 5"
            ),
        ),
        (
            {"retention.ms": "5", "local.retention.ms": "-1"},
            (
                "Invalid value -1 for configuration local.retention.ms: "
                "Value must not be -1 as retention.ms value is set as 5."
            ),
        ),
        (
            {"retention.bytes": "5", "local.retention.bytes": "10"},
            (
                "Invalid value 10 for configuration local.retention.bytes: "
                "Value must not be more than retention.bytes property value: 5"
            ),
        ),
        (
            {"retention.bytes": "5", "local.retention.bytes": "-1"},
            (
                "Invalid value -1 for configuration local.retention.bytes: "
                "Value must not be -1 as retention.bytes value is set as 5."
            ),
        ),
        (
            {"remote.log.copy.disable": "true", "local.retention.bytes": "1", "local.retention.ms": "1"},
            (
                "When `remote.log.copy.disable` is set to true, the `local.retention.bytes` and `retention.bytes` must "
                "be set to the identical value because there will be no more logs copied to the remote storage."
            ),
        ),
        (
            {"remote.log.copy.disable": "true", "local.retention.ms": "1"},
            (
                "When `remote.log.copy.disable` is set to true, the `local.retention.ms` and `retention.ms` must be "
                "set to the identical value because there will be no more logs copied to the remote storage."
            ),
        ),
    ],
)
def test_tiered_topic_is_checked_as_kafka_does(changes: dict[str, str], message: str) -> None:
    config = TopicConfig.from_overrides({"remote.storage.enable": "true", **changes})
    with pytest.raises(ConfigError) as caught:
        check_remote_storage(config, system_enabled=True)
    assert str(caught.value) == message


def test_tiered_topic_needs_a_node_with_a_tier() -> None:
    config = TopicConfig(remote_storage_enable=True)
    with pytest.raises(ConfigError, match="Tiered Storage functionality is disabled in the broker"):
        check_remote_storage(config, system_enabled=False)
    check_remote_storage(config, system_enabled=True)
    check_remote_storage(TopicConfig(), system_enabled=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"cleanup.policy": ""},
        {"retention.ms": "5", "local.retention.ms": "5"},
        {"retention.ms": "-1", "local.retention.ms": "-1"},
        {"retention.bytes": "-1", "local.retention.bytes": "7"},
        {"remote.log.copy.disable": "true", "retention.ms": "5", "local.retention.ms": "5"},
        {"remote.log.copy.disable": "true", "local.retention.ms": "-2"},
    ],
)
def test_tiered_topic_may_have_settings_that_agree(changes: dict[str, str]) -> None:
    config = TopicConfig.from_overrides({"remote.storage.enable": "true", **changes})
    check_remote_storage(config, system_enabled=True, topic="t")


def test_leaving_the_tier_takes_the_consent_to_delete() -> None:
    with pytest.raises(ConfigError, match="It is invalid to disable remote storage without deleting remote data"):
        check_remote_storage(TopicConfig(), system_enabled=True, was_enabled=True)
    check_remote_storage(TopicConfig(remote_log_delete_on_disable=True), system_enabled=True, was_enabled=True)
    check_remote_storage(TopicConfig(), system_enabled=True, was_enabled=False)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__remote_log_metadata", "__cluster_metadata"])
def test_internal_topics_are_not_tiered(topic: str) -> None:
    config = TopicConfig(remote_storage_enable=True)
    with pytest.raises(ConfigError, match=f"not supported for the internal topic {topic}"):
        check_remote_storage(config, system_enabled=True, topic=topic)


def test_local_retention_is_the_total_one_unless_it_is_set_and_counts() -> None:
    def limits(**settings: object) -> tuple[int, int]:
        config = TopicConfig(retention_ms=9, retention_bytes=99, remote_storage_enable=True)
        config = dataclasses.replace(config, **settings)  # type: ignore[arg-type] # names are those of the fields
        return config.effective_local_retention_ms, config.effective_local_retention_bytes

    assert limits() == (9, 99)
    assert limits(local_retention_ms=5, local_retention_bytes=55) == (5, 55)
    assert limits(local_retention_ms=-1, local_retention_bytes=-1, retention_ms=-1, retention_bytes=-1) == (-1, -1)
    assert limits(local_retention_ms=5, local_retention_bytes=55, remote_log_copy_disable=True) == (9, 99)
    assert limits(local_retention_ms=5, local_retention_bytes=55, remote_storage_enable=False) == (9, 99)
