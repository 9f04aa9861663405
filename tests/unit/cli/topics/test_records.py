"""`crabka records` against a node."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import RunCommand


def test_lines_of_stdin_become_records(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "lines")
    written = on_broker("records", "produce", "lines", stdin=b"one\ntwo\nthree\n")
    assert (written.code, written.out) == (0, "wrote 3 records to lines\n")
    assert on_broker("records", "consume", "lines", "--values").out == "one\ntwo\nthree\n"
    assert on_broker("records", "produce", "lines", "four").out == "wrote 1 record to lines\n"


def test_keys_headers_and_codec_are_kept(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "rich")
    written = on_broker(
        "records", "produce", "rich:0", "k1:v1", "plain", "--key-separator", ":", "--key", "k2",
        "--header", "h=1", "--codec", "zstd", "--json",
    )  # fmt: skip
    assert [(row["partition"], row["offset"]) for row in written.json] == [(0, 0), (0, 1)]
    rows = [json.loads(line) for line in on_broker("records", "consume", "rich", "--json").out.splitlines()]
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [
        ("k1", "v1", [["h", "1"]]),
        ("k2", "plain", [["h", "1"]]),
    ]


def test_reading_starts_and_ends_where_asked(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "range")
    on_broker("records", "produce", "range", *"abcdef")
    assert on_broker("records", "consume", "range", "--values", "--from", "+2", "-n", "2").out == "c\nd\n"
    assert on_broker("records", "consume", "range", "--from", "latest").out == ""
    first = on_broker("records", "consume", "range", "-n", "1").out.split("\t")
    assert (first[:3], first[4:]) == (["range", "0", "0"], ["", "a\n"])


def test_tail_waits_for_enough_records(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "tailed")
    on_broker("records", "produce", "tailed", "a", "b")
    assert on_broker("records", "tail", "tailed", "--from", "earliest", "-n", "2", "--values").out == "a\nb\n"


def test_front_of_a_partition_is_deleted(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "cut")
    on_broker("records", "produce", "cut", *"abcd")
    planned = on_broker("records", "delete-before", "cut:0:3")
    assert planned.out == "topic\tpartition\tstart\tnew_start\trecords\ncut\t0\t0\t3\t3\n"
    assert "nothing was changed" in planned.err
    assert on_broker("records", "delete-before", "cut:0:-1", "--json").json[0]["new_start"] == 4
    assert on_broker("records", "delete-before", "cut:0:5").err == "crabka: cut:0:5: the log ends at 4\n"
    cut = on_broker("records", "delete-before", "cut:0:3", "--execute")
    assert cut == (0, "topic\tpartition\tstart\ncut\t0\t3\n", "")
    assert on_broker("records", "consume", "cut", "--values").out == "d\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("produce", "t", "v", "--codec", "rar"), "--codec rar: not one of none, gzip, snappy, lz4, zstd"),
        (("consume", "t", "--values", "--json"), "--values and --json exclude each other"),
        (("consume", "t", "--from", "soon"), "soon: neither earliest"),
        (("delete-before", "t:0"), "t:0: not of the form TOPIC:PARTITION:OFFSET"),
    ],
)
def test_bad_input_is_refused(crabka: RunCommand, arguments: tuple[str, ...], message: str) -> None:
    outcome = crabka("records", *arguments)
    assert outcome.code == 2
    assert outcome.err.startswith(f"crabka: {message}")
