"""Settings as a test writes them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from crabka.config.java_classes import STANDARD_AUTHORIZER
from crabka.config.presets import one_node_properties
from crabka.embedded.settings import Settings, check_settings, refuse_quorum, settings_text
from crabka.errors import ConfigError


def test_values_are_written_as_kafka_writes_them() -> None:
    values: Settings = {"a": True, "b": 7, "c": 0.5, "d": 1e-9, "e": Path("/x/y"), "f": "text", "g": -1}
    text = {"a": "true", "b": "7", "c": "0.5", "d": "1.0E-9", "e": "/x/y", "f": "text", "g": "-1"}
    assert settings_text(values) == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num.partitions": None}, r"^num\.partitions: None is no value: leave the setting out to have its default$"),
        ({"log.dirs": ["a", "b"]}, r"^log\.dirs: give a list as text with commas, such as 'a,b'$"),
        ({"log.dirs": b"a"}, r"^log\.dirs: a value is a bool, a number, a string or a path, not a bytes$"),
        ({"log.cleaner.min.cleanable.ratio": math.nan}, r"^log\.cleaner.*: nan is no value of a setting$"),
        ({"log.dirs": "/a\0b"}, r"^log\.dirs: a value has no null bytes$"),
        ({"": 1}, r"^the name of a setting is empty$"),
        ({7: "x"}, r"^the name of a setting is a string, not a int \(7\)$"),
        ([("a", "b")], r"^settings are a mapping of Kafka's names to values, not a list$"),
    ],
)
def test_other_values_are_refused_in_one_sentence(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_text(settings)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("auto.create.topic.enable", "unknown setting .*, did you mean auto.create.topics.enable"),
        ("retention.ms", "unknown setting retention.ms, did you mean log.retention.ms"),
        ("zzz", "^unknown setting zzz$"),
        ("zookeeper.connect", "ZooKeeper is gone"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, message: str) -> None:
    given = {name: "1"}
    with pytest.raises(ConfigError, match=message):
        check_settings({**one_node_properties("d", "127.0.0.1", 0), **given}, given)


def test_settings_of_listeners_and_plugins_may_have_any_name() -> None:
    given = {"listener.name.plaintext.max.connections": "7", "rsm.config.dir": "/x", "rlmm.config.own": "1"}
    check_settings({**one_node_properties("d", "127.0.0.1", 0), **given}, given)


def test_settings_of_an_authorizer_need_one() -> None:
    given = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
    properties = {**one_node_properties("d", "127.0.0.1", 0), **given}
    check_settings({**properties, "authorizer.class.name": STANDARD_AUTHORIZER}, given)
    with pytest.raises(ConfigError, match=r"unknown setting super\.users"):
        check_settings(properties, given)


def test_roles_of_a_part_of_a_cluster_are_refused() -> None:
    refuse_quorum({"process.roles": "controller, broker"}, "")
    with pytest.raises(ConfigError, match="always broker and controller"):
        refuse_quorum({"process.roles": "broker"}, "")
