"""Findings about settings."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.checks.settings import SettingFacts, TopicSettings, find_settings
from crabka.clients.admin.admin_types import ConfigValue
from crabka.config.resolve import ConfigSource
from tests.support.doctor.findings import line, only, texts

HOUR_MS = 3_600_000


def value(name: str, text: str, source: ConfigSource = ConfigSource.DEFAULT_CONFIG) -> ConfigValue:
    return ConfigValue(name, text, source, False, False, 0, None, ())


def topic(replicas: int = 3, /, name: str = "t", **settings: str) -> TopicSettings:
    given = {"min.insync.replicas": "2"} | {key.replace("_", "."): text for key, text in settings.items()}
    return TopicSettings(name, replicas, False, {key: value(key, text) for key, text in given.items()})


def facts(*topics: TopicSettings, brokers: tuple[ConfigValue, ...] = (), is_crabka: bool = True) -> SettingFacts:
    return SettingFacts(topics, {1: {each.name: each for each in brokers}}, [1, 2, 3], is_crabka)


def test_usual_settings_are_fine() -> None:
    given = value("log.retention.hours", "24", ConfigSource.STATIC_BROKER_CONFIG)
    assert texts(find_settings(facts(topic(), brokers=(given,)))) == [("ok", "1 setting of brokers and 1 topic")]


@pytest.mark.parametrize(
    ("replicas", "settings", "severity", "text", "command"),
    [
        (
            3,
            {"min_insync_replicas": "3"},
            "warning",
            (
                "1 topic stops taking writes with acks=all when one broker is down: min.insync.replicas leaves none "
                "to spare (t)."
            ),
            "crabka configs alter topic t --set min.insync.replicas=2",
        ),
        (
            3,
            {"min_insync_replicas": "1"},
            "warning",
            (
                "1 topic with 3 or more replicas acknowledges records that only one of them has: min.insync.replicas "
                "is 1 (t)."
            ),
            "crabka configs alter topic t --set min.insync.replicas=2",
        ),
        (
            3,
            {"unclean_leader_election_enable": "true"},
            "warning",
            (
                "1 topic may lose acknowledged records: unclean.leader.election.enable lets replicas out of sync lead "
                "(t)."
            ),
            "crabka configs alter topic t --set unclean.leader.election.enable=false",
        ),
        (
            1,
            {"min_insync_replicas": "1"},
            "hint",
            "1 topic has one replica in a cluster of 3 brokers (t): without its broker it is gone.",
            "crabka partitions reassign --topic t --replicas 1,2,3 --execute",
        ),
        (
            3,
            {"remote_storage_enable": "true", "retention_ms": f"{HOUR_MS}", "local_retention_ms": f"{2 * HOUR_MS}"},
            "warning",
            (
                "t keeps records on disk 2h 0m (local.retention.ms) but removes them after 1h 0m (retention.ms): "
                "the tier has nothing to keep longer."
            ),
            "crabka configs alter topic t --delete local.retention.ms",
        ),
        (
            3,
            {"remote_storage_enable": "true", "retention_ms": f"{HOUR_MS}", "local_retention_ms": "-1"},
            "warning",
            (
                "t keeps records on disk for ever (local.retention.ms) but removes them after 1h 0m (retention.ms): "
                "the tier has nothing to keep longer."
            ),
            "crabka configs alter topic t --delete local.retention.ms",
        ),
    ],
)
def test_dangerous_settings_of_topics(
    replicas: int, settings: dict[str, str], severity: str, text: str, command: str
) -> None:
    found = only(find_settings(facts(topic(replicas, **settings))))
    assert (found.severity.value, found.reason, line(found)) == (severity, text, command)


def test_more_required_replicas_than_there_are_count_as_all() -> None:
    found = only(find_settings(facts(topic(2, min_insync_replicas="3"))))
    assert line(found) == "crabka configs alter topic t --set min.insync.replicas=1"
    alone = facts(topic(1, min_insync_replicas="2"))._replace(broker_ids=[1])
    assert only(find_settings(alone)).severity.value == "ok"


@pytest.mark.parametrize(
    "settings",
    [
        {"retention_ms": "1", "local_retention_ms": "2"},
        {"remote_storage_enable": "true", "retention_ms": "-1", "local_retention_ms": "5"},
        {"remote_storage_enable": "true", "retention_ms": "5", "local_retention_ms": "-2"},
    ],
)
def test_local_retention_that_fits(settings: dict[str, str]) -> None:
    assert only(find_settings(facts(topic(3, **settings)))).severity.value == "ok"


def test_one_replica_is_all_that_one_broker_can_have() -> None:
    alone = facts(topic(1, min_insync_replicas="1"))._replace(broker_ids=[1])
    assert only(find_settings(alone)).severity.value == "ok"


def test_settings_of_brokers_without_effect_are_one_hint() -> None:
    given = (
        value("num.io.threads", "16", ConfigSource.DYNAMIC_BROKER_CONFIG),
        value("background.threads", "4", ConfigSource.STATIC_BROKER_CONFIG),
        value("num.network.threads", "3"),
        # As `crabka up` sets it.
        value("share.coordinator.state.topic.min.isr", "1", ConfigSource.STATIC_BROKER_CONFIG),
    )
    found = only(find_settings(facts(topic(), brokers=given)))
    assert found.reason == ("2 settings of brokers have no effect in Crabka: num.io.threads=16, background.threads=4.")
    # One in a properties file cannot be removed by a command.
    assert (found.severity.value, line(found)) == ("hint", "crabka configs alter broker 1 --delete num.io.threads")
    assert line(only(find_settings(facts(topic(), brokers=given[1:])))) == ""
    assert only(find_settings(facts(topic(), brokers=given, is_crabka=False))).severity.value == "ok"


def test_settings_of_topics_without_effect_are_hints() -> None:
    preallocate = value("preallocate", "true", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    found = only(find_settings(facts(topic()._replace(configs={"preallocate": preallocate}))))
    assert found.reason == "preallocate of t has no effect in Crabka."
    assert line(found) == "crabka configs alter topic t --delete preallocate"
