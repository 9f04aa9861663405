"""Log output of a node on stderr: lines for people, or one JSON object per line for machines."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import IO, Literal

from crabka.cli.program import as_typed

LogFormat = Literal["text", "json"]
LOG_FORMATS: tuple[LogFormat, ...] = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


class TextFormatter(logging.Formatter):
    """Date, time, level, logger and message on one line; a traceback follows indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        name = record.name.removeprefix("crabka.")
        line = f"{clock}.{int(record.msecs):03d} {record.levelname:<7} {name}: {as_typed(record.getMessage())}"
        if record.exc_info:
            line += "\n" + "\n".join(f"    {each}" for each in self.formatException(record.exc_info).splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the JSON text of a record."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": as_typed(record.getMessage()),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up_logging(log_format: LogFormat, level: str, stream: IO[str] | None = None) -> None:
    """Send all log records of the process to `stream` (stderr) in the given form."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
