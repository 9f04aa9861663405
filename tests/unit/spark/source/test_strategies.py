from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.source.strategies import Assign, Subscribe, SubscribePattern, parse_strategy


def test_each_strategy_is_read() -> None:
    assert parse_strategy({"assign": ' {"t":[1]}'}) == Assign(frozenset({TopicPartition("t", 1)}))
    assert parse_strategy({"subscribe": " a , b,,"}) == Subscribe(frozenset({"a", "b"}))
    assert parse_strategy({"subscribePattern": " a.* "}) == SubscribePattern("a.*")


def test_a_pattern_is_found_anywhere_in_a_name() -> None:
    pattern = SubscribePattern("b+")
    assert pattern.matches("abba")
    assert not pattern.matches("acca")


def test_a_pattern_is_one_of_java() -> None:
    pattern = parse_strategy({"subscribePattern": r"^(?<env>\p{Alpha}+)\Q.\Eorders\z"})
    assert isinstance(pattern, SubscribePattern)
    assert pattern.matches("prod.orders")
    assert not pattern.matches("prod-orders")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of assign, subscribe, subscribePattern must be given"),
        ({"assign": "{}", "subscribe": "t"}, "only one of"),
        ({"assign": "t"}, "no partitions to read"),
        ({"assign": "{"}, "assign: expected"),
        ({"subscribe": " , "}, "no topics to read"),
        ({"subscribePattern": "  "}, "the pattern is empty"),
        ({"subscribePattern": "("}, "is no regular expression that can be used: a group is not closed"),
        ({"subscribePattern": "[a-z&&[^b]]+"}, "&& in brackets is not supported"),
    ],
)
def test_other_strategies_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_strategy(options)
