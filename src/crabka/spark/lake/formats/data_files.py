"""A Parquet file of a table as its writer describes it, and how it is named.

Names hold a part that no other attempt has, so a task that runs twice, or two that run at once, never write the same
file; what is not committed is an orphan that is never read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

DATA_SUFFIX = ".parquet"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_READABLE_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The least and the greatest value of a column in a file."""

    least: int
    greatest: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a table; the path is relative to the table's directory."""

    path: str
    rows: int
    size_bytes: int
    # The value of the table's partition column, None where it is null or where there is no such column.
    partition_value: str | None = None
    offsets: ColumnRange | None = None
    timestamps_us: ColumnRange | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> DataFile:
        """Read what to_json wrote."""
        return cls(
            path=fields["path"],
            rows=fields["rows"],
            size_bytes=fields["size_bytes"],
            partition_value=fields["partition_value"],
            offsets=_range_of(fields["offsets"]),
            timestamps_us=_range_of(fields["timestamps_us"]),
        )


def _range_of(fields: Mapping[str, int] | None) -> ColumnRange | None:
    return None if fields is None else ColumnRange(fields["least"], fields["greatest"])


def partition_directory(column: str | None, value: str | None) -> str:
    """Return the directory of a partition's files, empty for a table without partitions.

    Formats know a file's partition from their metadata, so the name is informative only. What would have to be
    encoded, which every format does in its own way, becomes a digest.
    """
    return "" if column is None else f"{_readable(column)}={NULL_PARTITION if value is None else _readable(value)}"


def _readable(text: str) -> str:
    safe = _UNSAFE.sub("-", text)[:_READABLE_CHARACTERS]
    if safe == text:
        return text
    # Delta takes a directory for hidden if it begins like this and is not called as the column.
    return f"{safe.lstrip('._')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def file_name(directory: str, first_offset: int, partition: int, unique: str) -> str:
    """Return the path of a new file; `unique` is not used by any other attempt."""
    name = f"part-{partition:05d}-{first_offset:020d}-{_UNSAFE.sub('-', unique)}{DATA_SUFFIX}"
    return f"{directory}/{name}" if directory else name
