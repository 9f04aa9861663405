from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.errors import ConfigError
from crabka.spark.options.where import ComparisonOperator, Condition, parse_where

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("offset >= 5", Condition("offset", ComparisonOperator.GREATER_OR_EQUAL, (5,))),
        (" `Offset`<-5 ", Condition("offset", ComparisonOperator.LESS, (-5,))),
        ("partition == 3", Condition("partition", ComparisonOperator.EQUAL, (3,))),
        ("partition <> 3", Condition("partition", ComparisonOperator.NOT_EQUAL, (3,))),
        ("partition IN (1,2 , 3)", Condition("partition", ComparisonOperator.IN, (1, 2, 3))),
        ("topic = 'it''s'", Condition("topic", ComparisonOperator.EQUAL, ("it's",))),
        ("topic in ('and')", Condition("topic", ComparisonOperator.IN, ("and",))),
        ("timestamp > '2026-01-01 12:00'", Condition("timestamp", ComparisonOperator.GREATER, (NOON,))),
        (
            "timestamp <= timestamp'2026-01-01T12:00:00Z'",
            Condition("timestamp", ComparisonOperator.LESS_OR_EQUAL, (NOON,)),
        ),
        (
            "TIMESTAMP = TIMESTAMP '2026-01-01 14:00:00+02:00'",
            Condition("timestamp", ComparisonOperator.EQUAL, (NOON,)),
        ),
    ],
)
def test_a_comparison_is_read(text: str, expected: Condition) -> None:
    assert parse_where(text) == (expected,)


def test_conditions_are_joined_by_and() -> None:
    found = parse_where("partition between 1 and 3 AND timestamp >= '2026-01-01 12:00'")
    assert found == (
        Condition("partition", ComparisonOperator.GREATER_OR_EQUAL, (1,)),
        Condition("partition", ComparisonOperator.LESS_OR_EQUAL, (3,)),
        Condition("timestamp", ComparisonOperator.GREATER_OR_EQUAL, (NOON,)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it ends before a column"),
        ("offset", "it ends before an operator"),
        ("offset >", "it ends before a constant"),
        ("value = 'x'", "value is not a column for conditions; use one of topic, partition, offset, timestamp"),
        ("offset like 5", "like is not an operator; use one of = != < <= > >= IN BETWEEN"),
        ("offset = 1 or offset = 2", "or is found instead of AND: only conditions"),
        ("offset = '5'", "offset is compared with whole numbers, not with '5'"),
        ("offset = 99999999999999999999", "offset is compared with whole numbers"),
        ("topic = 5", "topic is compared with text, not with 5"),
        ("timestamp > 5", "timestamp is compared with times, not with 5"),
        ("timestamp > '0001-01-01T00:00:00+05:00'", "timestamp is compared with times"),
        ("timestamp > 'soon'", "timestamp is compared with times, not with 'soon'"),
        ("offset in 5", "5 is found instead of a list in parentheses"),
        ("offset in (5", "it ends before"),
        ("offset in (5 6)", "6 is found instead of"),
        ("offset > 5; drop", "; drop is not understood"),
    ],
)
def test_what_is_not_understood_is_reported(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"^where \(") as raised:
        parse_where(text)
    assert message in str(raised.value)


@given(st.text(alphabet="offset timestampINAND<>=()',0123456789-`", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse_where(text)
    except ConfigError:
        return
