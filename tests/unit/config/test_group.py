"""Settings of groups."""

from __future__ import annotations

import pytest

from crabka.config.group import GROUP_KEYS, broker_synonym, parse_group_overrides
from crabka.config.settings.table import SERVER_KEYS
from crabka.errors import ConfigError
from tests.unit.config.nodes import server


def test_every_default_comes_from_the_broker_setting() -> None:
    for name, key in GROUP_KEYS.items():
        broker_name = broker_synonym(name)
        if broker_name is not None:
            assert SERVER_KEYS[broker_name].default_value == key.default_value


def test_values_within_the_limits_of_the_broker_are_parsed() -> None:
    parsed = parse_group_overrides({"consumer.session.timeout.ms": "46000"}, server().values)
    assert parsed == {"consumer.session.timeout.ms": 46_000}


@pytest.mark.parametrize("text", ["latest", "earliest", "by_duration:P1DT2H", "by_duration:PT0.5S"])
def test_start_of_a_share_group_can_be_named(text: str) -> None:
    assert parse_group_overrides({"share.auto.offset.reset": text}, {}) == {"share.auto.offset.reset": text}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"foo": "1"}, "Unknown group config name: foo"),
        (
            {"consumer.session.timeout.ms": "1"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.session.timeout.ms": "99999999"},
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"share.auto.offset.reset": "by_duration:P"},
            (
                "Invalid value by_duration:P for configuration share.auto.offset.reset: "
                "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            ),
        ),
    ],
)
def test_bad_settings_are_refused_in_kafkas_words(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_group_overrides(overrides, server().values)
    assert str(caught.value) == message


def test_session_must_be_longer_than_the_heartbeat() -> None:
    limits = {"group.consumer.heartbeat.interval.ms": 5000}
    with pytest.raises(ConfigError) as caught:
        parse_group_overrides({"consumer.session.timeout.ms": "5000"}, limits)
    assert str(caught.value) == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
