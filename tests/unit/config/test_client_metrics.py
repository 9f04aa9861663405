"""Settings of client metrics subscriptions."""

from __future__ import annotations

import pytest

from crabka.config.client_metrics import parse_client_metrics_overrides
from crabka.errors import ConfigError


def test_subscription_is_parsed() -> None:
    parsed = parse_client_metrics_overrides(
        {"metrics": "org.apache.,*", "interval.ms": "100", "match": "client_id=a.*,client_software_name=x"}
    )
    assert parsed == {
        "metrics": ("org.apache.", "*"),
        "interval.ms": 100,
        "match": ("client_id=a.*", "client_software_name=x"),
    }


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"foo": "1"}, "Unknown client metrics configuration: foo"),
        (
            {"interval.ms": "99"},
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        ({"match": "client_id"}, "Illegal client matching pattern: client_id"),
        ({"match": "color=blue"}, "Illegal client matching pattern: color=blue"),
        ({"match": "client_id=("}, "Illegal client matching pattern: client_id=("),
    ],
)
def test_bad_subscription_is_refused_in_kafkas_words(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_client_metrics_overrides(overrides)
    assert str(caught.value) == message
