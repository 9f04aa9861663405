"""Entries of Delta's log as deltalake takes and returns them, made of files and back.

Pure. Statistics have bounds that contain the values of the file, or none.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from deltalake.transaction import AddAction, RemoveAction

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import ColumnRange, DataFile
from crabka.spark.lake.values.schemas import FIRST_CALENDAR_US, LAST_CALENDAR_US, OFFSET, TIMESTAMP

_HOUR_MS = 3_600_000
_UNITS_MS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": _HOUR_MS, "day": 24 * _HOUR_MS}
_UNITS_MS["week"] = 7 * _UNITS_MS["day"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def add_action(file: DataFile, column: str | None, now_ms: int, *, is_new: bool) -> AddAction:
    """Return the entry by which a file becomes part of a table that is partitioned by a column."""
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=_partition_values(file, column),
        modification_time=now_ms,
        data_change=is_new,
        stats=json.dumps(_stats(file)),
    )


def remove_action(file: DataFile, column: str | None, now_ms: int, *, is_lost: bool = False) -> RemoveAction:
    """Return the entry by which a file is part of a table no longer; its rows are in others, unless they are lost."""
    return RemoveAction(
        path=file.path,
        data_change=is_lost,
        deletion_timestamp=now_ms,
        size=file.size_bytes,
        partition_values=_partition_values(file, column),
    )


def file_of(action: dict[str, Any], column: str | None) -> DataFile:
    """Return the file that deltalake returns as a flat row."""
    value = action.get(f"partition.{column}")
    least, greatest = action.get(f"min.{OFFSET}"), action.get(f"max.{OFFSET}")
    return DataFile(
        unquote(action["path"]),
        action["num_records"],
        action["size_bytes"],
        None if value is None else _partition_text(value),
        None if least is None or greatest is None else ColumnRange(least, greatest),
    )


def interval_ms(text: str) -> int:
    """Return how long an interval of Delta's configuration is. Raises LakeError."""
    words = text.lower().split()
    if len(words) != 3 or words[0] != "interval" or not words[1].isdecimal():
        raise LakeError(f"{text!r} is not an interval of Delta")
    unit_ms = _UNITS_MS.get(words[2].removesuffix("s"))
    # Whatever is smaller than all units here rounds to nothing.
    return 0 if unit_ms is None else int(words[1]) * unit_ms


def _partition_values(file: DataFile, column: str | None) -> dict[str, str | None]:
    return {} if column is None else {column: file.partition_value}


def _stats(file: DataFile) -> dict[str, Any]:
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    if file.offsets is not None:
        least[OFFSET], greatest[OFFSET] = file.offsets.least, file.offsets.greatest
    if file.timestamps_us is not None and _is_in_calendar(file.timestamps_us):
        # Delta keeps milliseconds here: bounds must not lie within the values.
        least[TIMESTAMP] = _iso(file.timestamps_us.least // 1000)
        greatest[TIMESTAMP] = _iso(-(-file.timestamps_us.greatest // 1000))
    null_counts = dict.fromkeys(least, 0)
    return {"numRecords": file.rows, "minValues": least, "maxValues": greatest, "nullCount": null_counts}


def _is_in_calendar(timestamps_us: ColumnRange) -> bool:
    return timestamps_us.least >= FIRST_CALENDAR_US and timestamps_us.greatest < LAST_CALENDAR_US - 1000


def _iso(timestamp_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    # Not strftime: its years before 1000 have fewer than four digits.
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _partition_text(value: object) -> str:
    """Return the value of the partition column as DataFile has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
