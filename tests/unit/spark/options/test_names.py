from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.spark.options.names import by_canonical_name, without_effect


def test_options_are_sorted_by_whom_they_are_for() -> None:
    given = {"STARTINGOFFSETS": "a", "Kafka.Client.Id": "b", "tier.config.region": "c", "tier.topicid": "d"}
    assert by_canonical_name(given) == (
        {"startingOffsets": "a", "tier.topicId": "d"},
        {"client.id": "b"},
        {"region": "c"},
    )


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("subscribe_pattern", "subscribePattern"),
        ("endingoffset", "endingOffsets"),
        ("tier.url", "tier.uri"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("failondatalos", "failOnDataLoss"),
    ],
)
def test_an_unknown_option_names_the_nearest(given: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        by_canonical_name({given: "x"})
    assert str(caught.value) == f"{given} is not an option of the source; did you mean {nearest}?"


def test_an_option_that_resembles_none_is_just_refused() -> None:
    with pytest.raises(ConfigError, match=r"^zzz is not an option of the source$"):
        by_canonical_name({"zzz": "x"})


def test_what_has_no_effect_is_known() -> None:
    client = ["bootstrap.servers", "ssl.ca.location", "fetch.min.bytes", "group.id"]
    assert without_effect(["topic", "subscribe"], client) == ["kafka.fetch.min.bytes", "kafka.group.id", "topic"]


def test_properties_of_security_that_protect_nothing_are_without_effect() -> None:
    client = {"ssl.protocol": "TLS", "ssl.ca.location": "/ca", "sasl.login.refresh.window.factor": "1"}
    assert without_effect([], client) == ["kafka.sasl.login.refresh.window.factor", "kafka.ssl.protocol"]
