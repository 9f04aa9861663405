from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.options.selection import (
    Assign,
    EarliestLimit,
    GlobalTimestampLimit,
    LatestLimit,
    OffsetLimit,
    OffsetsLimit,
    Subscribe,
    SubscribePattern,
    TimestampsLimit,
    parse_limits,
    parse_strategy,
)

T0 = TopicPartition("t", 0)


def test_a_time_for_all_wins_over_times_of_partitions_and_those_over_offsets() -> None:
    options = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"t":{"0":5}}',
        "startingTimestamp": " 7 ",
        "endingOffsets": '{"t":{"0":9}}',
        "endingOffsetsByTimestamp": '{"t":{"0":10}}',
    }
    starting, ending = parse_limits(options, streaming=False)
    assert starting == GlobalTimestampLimit(7)
    assert ending == TimestampsLimit({T0: 10})


def test_words_are_understood_in_any_case() -> None:
    assert parse_limits({"startingOffsets": "Earliest", "endingOffsets": "LATEST"}, streaming=False) == (
        EarliestLimit(),
        LatestLimit(),
    )
    assert parse_limits({"startingOffsets": "latest"}, streaming=True)[0] == LatestLimit()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets of t-0 can't be latest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets of t-0 can't be earliest"),
        ({"startingTimestamp": "soon"}, "startingTimestamp is a whole number"),
        ({"startingTimestamp": ""}, "startingTimestamp is a whole number, not an empty text"),
        ({"startingTimestamp": str(2**70)}, "startingTimestamp is a whole number of 64 bits"),
        ({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'}, "5 of t-0 is after the ending 4"),
        ({"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":8}}'}, "different partitions"),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":4}}'},
            "starting timestamp 5 of t-0",
        ),
    ],
)
def test_batch_limits_that_make_no_sense_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_limits(options, streaming=False)


def test_latest_and_earliest_are_not_compared_with_offsets() -> None:
    options = {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":-1}}'}
    assert parse_limits(options, streaming=False) == (OffsetsLimit({T0: 5}), OffsetsLimit({T0: -1}))


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_streams_do_not_end(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not valid in streaming"):
        parse_limits({name: "latest"}, streaming=True)


def test_limits_are_values() -> None:
    assert EarliestLimit() == EarliestLimit()
    limits: set[OffsetLimit] = {EarliestLimit(), LatestLimit(), LatestLimit()}
    assert len(limits) == 2
    assert OffsetsLimit({TopicPartition("t", 0): 1}) == OffsetsLimit({TopicPartition("t", 0): 1})
    assert GlobalTimestampLimit(1) != GlobalTimestampLimit(2)


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
        ({"subscribePattern": "("}, "is not a usable regular expression: a group is not closed"),
        ({"subscribePattern": "[a-z&&[^b]]+"}, "&& in brackets is not supported"),
    ],
)
def test_other_strategies_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_strategy(options)
