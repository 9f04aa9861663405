"""Log lines for people and for machines."""

from __future__ import annotations

import io
import json
import logging
import re
import sys

import pytest

from crabka.cli import program
from crabka.cli.node.logs import JsonFormatter, LogFormat, TextFormatter, set_up_logging


def _record(message: str, *arguments: object) -> logging.LogRecord:
    record = logging.LogRecord("crabka.log.segment.segment", logging.WARNING, "file", 1, message, arguments, None)
    record.created, record.msecs = 1_700_000_000.25, 250.0
    return record


def _failed_record() -> logging.LogRecord:
    record = _record("it broke")
    try:
        raise ValueError("the reason")
    except ValueError:
        record.exc_info = sys.exc_info()
    return record


def test_text_line_has_time_level_logger_and_message() -> None:
    line = TextFormatter().format(_record("%d records", 5))
    day, clock, rest = line.split(" ", 2)
    assert rest == "WARNING log.segment.segment: 5 records"
    assert re.fullmatch(r"2023-11-1[45]", day)
    assert clock.endswith(".250")


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_commands_are_spelt_as_the_program_was_started(
    formatter: logging.Formatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_typed", ".venv/bin/crabka")
    line = formatter.format(_record("run `crabka quorum repair` now"))
    assert "run `.venv/bin/crabka quorum repair` now" in line


def test_traceback_follows_indented() -> None:
    lines = TextFormatter().format(_failed_record()).splitlines()
    assert lines[1] == "    Traceback (most recent call last):"
    assert lines[-1] == "    ValueError: the reason"


def test_json_line_is_one_object() -> None:
    assert json.loads(JsonFormatter().format(_record("é"))) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "crabka.log.segment.segment",
        "message": "é",
    }
    line = JsonFormatter().format(_failed_record())
    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("ValueError: the reason")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_records_go_to_the_stream_once(root_logger: logging.Logger, log_format: LogFormat) -> None:
    stream = io.StringIO()
    set_up_logging(log_format, "info", io.StringIO())
    set_up_logging(log_format, "info", stream)
    logging.getLogger("crabka.test").info("shown")
    logging.getLogger("crabka.test").debug("hidden")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert "shown" in lines[0]
    assert lines[0].startswith("{") is (log_format == "json")
