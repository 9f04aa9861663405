"""What commands print: tables for people, tab-separated lines for pipes, JSON for programs."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

Row = Mapping[str, Any]


def print_rows(columns: Sequence[str], rows: Sequence[Row], *, as_json: bool, title: str = "") -> None:
    """Print rows: as JSON if asked, as a table on a terminal, else as lines with tabs and a header."""
    if as_json:
        print_json([dict(row) for row in rows])
    elif sys.stdout.isatty():
        _print_table(columns, rows, title, sys.stdout)
    else:
        print("\t".join(columns))
        for row in rows:
            print("\t".join(_cell(row[column]) for column in columns))


def print_json(value: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_done(message: str, *, as_json: bool, result: object) -> None:
    """Print what was done: as text for people, as JSON for programs."""
    if as_json:
        print_json(result)
    else:
        print(message)


def bytes_as_json(value: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text where they are UTF-8, else as {"base64": …}: JSON has no bytes."""
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(str(member) for member in value)
    return "" if value is None else str(value)


def _print_table(columns: Sequence[str], rows: Sequence[Row], title: str, stream: IO[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", header_style="bold")
    for column in columns:
        numeric = bool(rows) and all(isinstance(row[column], int | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    Console(file=stream).print(table)
