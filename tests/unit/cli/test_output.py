"""Tables for people, tabs for pipes, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import pytest

from crabka.cli.output import (
    Column,
    Kind,
    Row,
    bytes_as_json,
    print_done,
    print_plan_note,
    print_rows,
    readable,
    table_lines,
)

COLUMNS = ("topic", "replicas", "note")
ROWS = [{"topic": "a", "replicas": [1, 2], "note": None, "extra": True}]


def test_pipe_gets_tabs_and_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, as_json=False)
    assert capsys.readouterr().out == "topic\treplicas\tnote\na\t1,2\t\n"


def test_program_gets_everything_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(COLUMNS, ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_person_gets_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    print_rows(COLUMNS, [{"topic": "[red]a", "replicas": 3, "note": None}], as_json=False, title="Topics")
    assert capsys.readouterr().out == "Topics\nTOPIC   REPLICAS  NOTE\n[red]a         3  -\n"


def test_numbers_are_aligned_beside_unknown_ones() -> None:
    assert table([Column("count")], [{"count": 12345}, {"count": 7}, {"count": None}]) == [
        "COUNT",
        "12345",
        "    7",
        "    -",
    ]


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (Column("size_bytes"), 64 << 20, "64.0 MiB"),
        (Column("bytes_per_s"), 2048, "2.0 KiB/s"),
        (Column("age_ms"), 90_000, "1m 30s"),
        (Column("max_timestamp"), 1_800_000_000_123, "2027-01-15T08:00:00.123Z"),
        (Column("timestamp"), -1, "-"),
        (Column("timestamp"), 1 << 62, str(1 << 62)),
        (Column("stored", kind=Kind.SIZE), 1024, "1.0 KiB"),
        (Column("done"), True, "yes"),
        (Column("replicas"), [1, 2], "1,2"),
        (Column("replicas"), [], "-"),
        (Column("client"), "a\tb\x1b[2J", "a\\tb\\x1b[2J"),
    ],
)
def test_a_value_reads_as_its_column_says(column: Column, value: object, text: str) -> None:
    assert readable(column, value) == text


def test_pipe_gets_raw_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(("size_bytes", Column("age_ms", "age")), [{"size_bytes": 1 << 20, "age_ms": 90_000}], as_json=False)
    assert capsys.readouterr().out == "size_bytes\tage_ms\n1048576\t90000\n"


def test_columns_leave_a_narrow_table_and_are_named() -> None:
    columns = [Column("topic"), Column("id", yields=2), Column("size_bytes"), Column("note", yields=1)]
    rows = [{"topic": "orders", "id": "A" * 22, "size_bytes": 123_456_789, "note": "x" * 20}]
    assert table(columns, rows, width=80)[1] == f"orders  {'A' * 22}  117.7 MiB  {'x' * 20}"
    assert table(columns, rows, width=40) == [
        "TOPIC        SIZE  NOTE",
        f"orders  117.7 MiB  {'x' * 20}",
        "not shown, for lack of room: id (--json",
        "has all)",
    ]
    narrow = table(columns, rows, width=30)
    assert " ".join(narrow[2:]) == "not shown, for lack of room: id, note (--json has all)"
    assert max(map(len, narrow)) <= 30


def test_rows_that_do_not_fit_become_blocks() -> None:
    columns = [Column("topic"), Column("id", yields=1), Column("reason")]
    rows = [{"topic": "a", "id": 1, "reason": "r" * 40}, {"topic": "b", "id": 2, "reason": "s" * 40}]
    assert table(columns, rows, width=40) == [
        "TOPIC   a",
        "ID      1",
        f"REASON  {'r' * 40}",
        "",
        "TOPIC   b",
        "ID      2",
        f"REASON  {'s' * 40}",
    ]


def test_wide_characters_keep_the_columns_straight() -> None:
    assert table([Column("topic"), Column("n")], [{"topic": "日本", "n": 1}, {"topic": "abcd", "n": 2}])[1:] == [
        "日本   1",
        "abcd   2",
    ]


def test_a_state_that_needs_attention_has_a_colour() -> None:
    shown = table_lines([Column("state")], [{"state": "offline"}, {"state": "online"}], width=80, styled=True)
    assert shown[1:] == ["\x1b[1;31moffline\x1b[0m", "online"]


def table(columns: list[Column], rows: Sequence[Row], width: int = 80) -> list[str]:
    return table_lines(columns, rows, width=width)


def test_a_plan_that_was_only_shown_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan_note(execute=False, done="deleted", as_json=False)
    assert "nothing was changed; --execute" in capsys.readouterr().err
    print_plan_note(execute=True, done="deleted", as_json=False)
    assert capsys.readouterr().err == "deleted\n"


def test_done_is_a_sentence_or_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    print_done("created a", as_json=False, result=["a"])
    print_done("created a", as_json=True, result=["a"])
    assert capsys.readouterr().out == 'created a\n[\n  "a"\n]\n'


def test_bytes_that_are_no_text_become_base64() -> None:
    assert bytes_as_json("é".encode()) == "é"
    assert bytes_as_json(b"\xff") == {"base64": "/w=="}
    assert bytes_as_json(None) is None
