"""`crabka offsets` against a node, and the times that it understands."""

from __future__ import annotations

import pytest

from crabka.cli.topics.offsets import parse_moment, parse_time
from crabka.errors import ConfigError
from tests.unit.cli.conftest import RunCommand


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("latest", -1),
        ("earliest", -2),
        ("max-timestamp", -3),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T23:13:20.250+01:00", 1_700_000_000_250),
    ],
)
def test_time_is_a_word_a_number_or_iso(text: str, timestamp: int) -> None:
    assert parse_time(text) == timestamp


def test_other_words_are_refused() -> None:
    with pytest.raises(ConfigError, match="yesterday: neither earliest"):
        parse_time("yesterday")


def test_moment_is_no_special_word() -> None:
    assert parse_moment("2023-11-14T22:13:20Z") == 1_700_000_000_000
    with pytest.raises(ConfigError, match="latest: neither milliseconds"):
        parse_moment("latest")


def test_offsets_of_all_and_of_single_partitions(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "measured", "-p", "2")
    on_broker("records", "produce", "measured:1", "a", "b", "c")
    latest = on_broker("offsets", "get", "measured", "measured:1", "--json").json
    assert [(row["partition"], row["offset"]) for row in latest] == [(0, 0), (1, 3)]
    earliest = on_broker("offsets", "get", "measured:1", "--at", "earliest", "--json").json
    assert [row["offset"] for row in earliest] == [0]
    newest = on_broker("offsets", "get", "measured:1", "--at", "max-timestamp").out.splitlines()
    assert newest[0] == "topic\tpartition\toffset\ttimestamp\tepoch"


def test_partition_that_does_not_exist_is_named(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "small")
    outcome = on_broker("offsets", "get", "small:7")
    assert (outcome.code, outcome.err) == (2, "crabka: small has no partition 7, it has 1\n")
