"""What commands print: tables for people, tab-separated lines for pipes, JSON for programs.

The name of a column says how its values read in a table: `_bytes` becomes a size, `_ms` a time span. Pipes and JSON
get the numbers. A table is never wider than its terminal and cuts or folds no value: columns that may go are left out,
and if that is not enough each row becomes a block of lines.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from crabka.cli.units import format_duration, format_size

Row = Mapping[str, Any]

# A value that is not known, or that does not exist.
MISSING: Final = "-"
GAP: Final = "  "
_DEFAULT_WIDTH: Final = 80
_BOLD, _DIM, _RED, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[1;31m", "\x1b[33m", "\x1b[0m"
_STYLES: Final = {"offline": _RED, "stopped": _RED, "fenced": _YELLOW, "cordoned": _YELLOW}


class Kind(Enum):
    """What a number is, beyond itself."""

    PLAIN = ""
    SIZE = "_bytes"
    RATE = "_bytes_per_s"
    SPAN = "_ms"
    TIME = "timestamp"


class Column(NamedTuple):
    """A column that differs from what its name says."""

    name: str
    # Its header in a table; the name without its unit if empty.
    label: str = ""
    # Columns leave a narrow table in this order, the largest first; 0 stays.
    yields: int = 0
    # Follows from the name if it is not given.
    kind: Kind | None = None


Columns = Sequence[str | Column]


def print_rows(columns: Columns, rows: Sequence[Row], *, as_json: bool, title: str = "") -> None:
    """Print rows: as JSON if asked, as a table on a terminal, else as lines with tabs and a header."""
    if as_json:
        print_json([dict(row) for row in rows])
        return
    known = [column_of(each) for each in columns]
    if sys.stdout.isatty():
        for line in table_lines(known, rows, width=terminal_width(), title=title, styled=_has_styles()):
            print(line)
    else:
        print("\t".join(column.name for column in known))
        for row in rows:
            print("\t".join(_raw_cell(row[column.name]) for column in known))


def column_of(given: str | Column) -> Column:
    """Return the column of a name."""
    return given if isinstance(given, Column) else Column(given)


def print_json(value: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_done(message: str, *, as_json: bool, result: object) -> None:
    """Print what was done: as text for people, as JSON for programs."""
    if as_json:
        print_json(result)
    else:
        print(message)


def print_plan_note(*, execute: bool, done: str, as_json: bool) -> None:
    """Print below a plan, on stderr, that nothing was changed yet, or what was done."""
    if not execute:
        print("nothing was changed; --execute carries out this plan", file=sys.stderr)
    elif not as_json:
        print(done, file=sys.stderr)


def bytes_as_json(value: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text where they are UTF-8, else as {"base64": …}: JSON has no bytes."""
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def terminal_width() -> int:
    """Return the columns of the terminal; COLUMNS decides if it is set."""
    return shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns


def table_lines(
    columns: Sequence[Column], rows: Sequence[Row], *, width: int, title: str = "", styled: bool = False
) -> list[str]:
    """Return a table that is at most as wide as the terminal, unless a single value is wider."""
    cells = {column.name: [readable(column, row[column.name]) for row in rows] for column in columns}
    widths = {column.name: max(map(_width, (_header(column), *cells[column.name]))) for column in columns}
    shown, hidden = _fitting(columns, widths, width)
    style = _styled if styled else _unstyled
    lines = [style(title, _BOLD)] if title else []
    if sum(widths[column.name] for column in shown) + len(GAP) * (len(shown) - 1) > width:
        lines += _blocks(columns, cells, len(rows), style)
        return lines
    numeric = {column.name for column in shown if _is_numeric([row[column.name] for row in rows])}
    header = [_aligned(_header(column), widths[column.name], column.name in numeric) for column in shown]
    lines.append(style(GAP.join(header).rstrip(), _BOLD))
    for index in range(len(rows)):
        parts = [(cells[column.name][index], widths[column.name], column.name in numeric) for column in shown]
        lines.append(GAP.join(style(_aligned(*part), _STYLES.get(part[0], "")) for part in parts).rstrip())
    if hidden and rows:
        names = ", ".join(_header(column).lower() for column in hidden)
        note = f"not shown, for lack of room: {names} (--json has all)"
        lines += [style(line, _DIM) for line in textwrap.wrap(note, width)]
    return lines


def readable(column: Column, value: object) -> str:
    """Return a value as people read it."""
    if value is None:
        return MISSING
    if isinstance(value, int | float) and not isinstance(value, bool):
        match column.kind or _kind_of(column.name):
            case Kind.SIZE:
                return format_size(value)
            case Kind.RATE:
                return f"{format_size(value)}/s"
            case Kind.SPAN:
                return format_duration(value)
            case Kind.TIME:
                return format_time(int(value))
            case Kind.PLAIN:
                return str(value)
    text = "yes" if value is True else "no" if value is False else _raw_cell(value)
    return text or MISSING


def _kind_of(name: str) -> Kind:
    if "timestamp" in name:
        return Kind.TIME
    if name.endswith("bytes_per_s"):
        return Kind.RATE
    return next((kind for kind in (Kind.SIZE, Kind.SPAN) if name.endswith(kind.value)), Kind.PLAIN)


def format_time(timestamp_ms: int) -> str:
    """Return a moment in UTC; a negative timestamp is none."""
    if timestamp_ms < 0:
        return MISSING
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{timestamp_ms % 1000:03d}Z"


def _raw_cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(_raw_cell(member) for member in value)
    # Names of groups and clients may hold anything, for example a tab or the codes that steer a terminal.
    return "" if value is None else "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))


def _fitting(columns: Sequence[Column], widths: Mapping[str, int], width: int) -> tuple[list[Column], list[Column]]:
    """Return the columns that are shown and those that are left out."""
    shown = list(columns)
    for column in sorted((each for each in columns if each.yields), key=lambda each: -each.yields):
        if sum(widths[each.name] + len(GAP) for each in shown) - len(GAP) <= width:
            break
        shown.remove(column)
    return shown, [column for column in columns if column not in shown]


def _blocks(columns: Sequence[Column], cells: Mapping[str, list[str]], count: int, style: Any) -> Iterable[str]:
    """Return a block of lines for each row, for values that are too wide to stand side by side."""
    label_width = max(_width(_header(column)) for column in columns)
    for index in range(count):
        if index:
            yield ""
        for column in columns:
            label = style(_aligned(_header(column), label_width, False), _BOLD)
            yield f"{label}{GAP}{cells[column.name][index]}"


def _header(column: Column) -> str:
    name = column.name.removesuffix("_bytes").removesuffix("_ms").replace("bytes_per_s", "per second")
    return (column.label or name).replace("_", " ").upper()


def _aligned(text: str, width: int, is_right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if is_right else text + space


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _is_numeric(values: Iterable[object]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def _has_styles() -> bool:
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _styled(text: str, code: str) -> str:
    return f"{code}{text}{_PLAIN}" if code else text


def _unstyled(text: str, _code: str) -> str:
    return text
