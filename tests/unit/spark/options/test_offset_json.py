from __future__ import annotations

import json

import pytest

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.options.offset_json import (
    offsets_from_dict,
    offsets_to_dict,
    parse_offsets,
    parse_partitions,
    parse_timestamps,
)

T0, T1, T10, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 10), TopicPartition("u", 0)


def test_offsets_are_read() -> None:
    assert parse_offsets('{"t":{"0":23,"1":-1},"u":{"0":-2}}', "o") == {T0: 23, T1: -1, U0: -2}
    assert parse_timestamps('{"t":{"0":-7}}', "o") == {T0: -7}
    assert parse_partitions('{"t":[0,1],"u":[0]}', "assign") == frozenset({T0, T1, U0})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "earlyest",
        "[]",
        '{"t":5}',
        '{"t":{"a":1}}',
        '{"t":{"0":1.5}}',
        '{"t":{"0":true}}',
        '{"t":{"0":null}}',
        '{"t":{"-1":0}}',
        '{"t":{"2147483648":0}}',
        f'{{"t":{{"{"1" * 5_000}":0}}}}',
        '{"t":{"0":9223372036854775808}}',
    ],
)
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"startingOffsets: expected e\.g\."):
        parse_offsets(text, "startingOffsets")


def test_offsets_below_the_special_ones_are_refused() -> None:
    with pytest.raises(ConfigError, match="-3 of t-0 is no offset"):
        parse_offsets('{"t":{"0":-3}}', "startingOffsets")


@pytest.mark.parametrize("text", ['{"t":0}', '{"t":[-1]}', '{"t":[true]}', "t", '{"t":["0"]}'])
def test_partitions_are_lists_of_numbers(text: str) -> None:
    with pytest.raises(ConfigError, match="assign: expected"):
        parse_partitions(text, "assign")


def test_messages_stay_on_one_line_and_short() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_offsets("{\n" + "x" * 5000, "o")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_checkpoints_hold_topics_and_partitions_in_order() -> None:
    content = offsets_to_dict({U0: 1, T10: 2, T1: 3})
    assert json.dumps(content) == '{"t": {"1": 3, "10": 2}, "u": {"0": 1}}'
    assert offsets_from_dict(content) == {U0: 1, T10: 2, T1: 3}


def test_a_checkpoint_of_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="the checkpoint has offsets that cannot be read"):
        offsets_from_dict({"index": 3})
