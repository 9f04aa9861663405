"""Texts that name partitions and offsets."""

from __future__ import annotations

import pytest

from crabka.cli.options import parse_ids, parse_partition, parse_partition_offset, settings_of, split_places
from crabka.errors import ConfigError
from crabka.ids import TopicPartition


def test_partition_may_be_left_out() -> None:
    assert parse_partition("orders") == ("orders", None)
    assert parse_partition("orders:3") == ("orders", 3)


def test_offset_follows_the_partition() -> None:
    assert parse_partition_offset("orders:3:17") == (TopicPartition("orders", 3), 17)
    assert parse_partition_offset("orders:3:-1") == (TopicPartition("orders", 3), -1)


@pytest.mark.parametrize("text", ["orders:x", "orders:-1"])
def test_bad_partition_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not of the form TOPIC or TOPIC:PARTITION"):
        parse_partition(text)


@pytest.mark.parametrize("text", ["orders", "orders:3", "orders:3:x", ":3:4"])
def test_bad_offset_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not of the form TOPIC:PARTITION:OFFSET"):
        parse_partition_offset(text)


def test_settings_are_optional() -> None:
    assert settings_of(None) == {}
    assert settings_of(["a=b"]) == {"a": "b"}


def test_several_partitions_are_several_places() -> None:
    assert split_places(["orders", "orders:0,2", "other:1"]) == ["orders", "orders:0", "orders:2", "other:1"]


@pytest.mark.parametrize("text", ["", "1,", "x", "1,1"])
def test_ids_of_nodes_are_different_numbers(text: str) -> None:
    assert parse_ids("3, 1", "--brokers") == [3, 1]
    with pytest.raises(ConfigError, match="--brokers"):
        parse_ids(text, "--brokers")
