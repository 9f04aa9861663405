"""Tables for people, tabs for pipes, JSON for programs."""

from __future__ import annotations

import json
import sys

import pytest

from crabka.cli.output import bytes_as_json, print_done, print_rows

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
    print_rows(COLUMNS, [{"topic": "[red]a", "replicas": 3, "note": "x"}], as_json=False, title="Topics")
    shown = capsys.readouterr().out
    assert "Topics" in shown
    assert "[red]a" in shown
    assert "─" in shown or "━" in shown


def test_numbers_are_aligned_beside_unknown_ones(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_rows(("size",), [{"size": 12345}, {"size": 7}, {"size": None}], as_json=False)
    assert "│     7 │" in capsys.readouterr().out


def test_done_is_a_sentence_or_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    print_done("created a", as_json=False, result=["a"])
    print_done("created a", as_json=True, result=["a"])
    assert capsys.readouterr().out == 'created a\n[\n  "a"\n]\n'


def test_bytes_that_are_no_text_become_base64() -> None:
    assert bytes_as_json("é".encode()) == "é"
    assert bytes_as_json(b"\xff") == {"base64": "/w=="}
    assert bytes_as_json(None) is None
