"""Records as a test writes them: a value, a pair of key and value, or a `Row` with everything a record can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Text = bytes | str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A record to produce. Text is written as UTF-8; the timestamp is in milliseconds, None means now."""

    value: Text = None
    key: Text = None
    headers: Mapping[str, Text] = field(default_factory=dict)
    partition: int | None = None
    timestamp: int | None = None


AnyRow = Text | tuple[Text, Text] | Row


def as_rows(rows: Iterable[AnyRow]) -> list[Row]:
    """Return rows in one form. Raises TypeError for anything else, and for a single text in place of rows."""
    if isinstance(rows, str | bytes | Row):
        raise TypeError(f"rows are an iterable of records: give [{rows!r}]")
    return [_as_row(row) for row in rows]


def as_bytes(text: Any) -> bytes | None:
    """Return the bytes of a key, a value or a header. Raises TypeError."""
    match text:
        case None | bytes():
            return text
        case bytearray() | memoryview():
            return bytes(text)
        case str():
            return text.encode()
    raise TypeError(f"keys, values and headers are bytes, str or None, not a {type(text).__name__}: encode {text!r}")


def _as_row(row: Any) -> Row:
    match row:
        case Row():
            return row
        case (key, value):
            return Row(as_bytes(value), as_bytes(key))
        case tuple() | list():
            raise TypeError(f"a row is a value or a pair of key and value, not {len(row)} items: {row!r}")
    return Row(as_bytes(row))
