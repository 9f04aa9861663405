from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import ColumnRange, DataFile
from crabka.spark.lake.formats.delta_actions import add_action, file_of, interval_ms, remove_action
from crabka.spark.lake.values.schemas import LAST_CALENDAR_US


def stats_of(file: DataFile) -> dict[str, Any]:
    action = add_action(file, None, 7, is_new=True)
    found: dict[str, Any] = json.loads(action.stats)
    return found


def microseconds(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc, arg-type]


def test_bounds_contain_the_values_and_years_have_four_digits() -> None:
    times = ColumnRange(microseconds(33, 4, 3, 12) + 1_999, microseconds(2026, 1, 1) + 1)
    stats = stats_of(DataFile("a", 3, 9, None, ColumnRange(5, 7), times))
    assert stats["minValues"] == {"kafka_offset": 5, "kafka_timestamp": "0033-04-03T12:00:00.001Z"}
    assert stats["maxValues"] == {"kafka_offset": 7, "kafka_timestamp": "2026-01-01T00:00:00.001Z"}
    assert (stats["numRecords"], stats["nullCount"]) == (3, {"kafka_offset": 0, "kafka_timestamp": 0})


def test_times_that_no_calendar_has_have_no_bounds() -> None:
    stats = stats_of(DataFile("a", 3, 9, None, ColumnRange(5, 7), ColumnRange(0, LAST_CALENDAR_US)))
    assert stats["minValues"] == {"kafka_offset": 5}


def test_what_replaces_the_same_rows_is_no_change_of_data() -> None:
    file = DataFile("a", 3, 9, "x")
    added, removed = add_action(file, "kind", 7, is_new=False), remove_action(file, "kind", 7)
    assert not added.data_change
    assert not removed.data_change
    assert added.partition_values == removed.partition_values == {"kind": "x"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (5, "5"), (date(33, 4, 3), "0033-04-03"), ("x", "x"), (None, None)],
)
def test_values_of_partitions_are_reported_as_they_are_written(value: object, text: str | None) -> None:
    action = {"path": "kind%3D1/a", "num_records": 3, "size_bytes": 9, "partition.kind": value}
    assert file_of(action, "kind") == DataFile("kind=1/a", 3, 9, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 2 weeks", 1_209_600_000),
        ("INTERVAL 1 day", 86_400_000),
        ("interval 5 seconds", 5_000),
        ("interval 9 nanoseconds", 0),
    ],
)
def test_intervals_are_read(text: str, expected: int) -> None:
    assert interval_ms(text) == expected


@pytest.mark.parametrize("text", ["", "2 weeks", "interval two weeks", "interval 1 day 2 hours"])
def test_what_is_no_interval_is_reported(text: str) -> None:
    with pytest.raises(LakeError, match="not an interval"):
        interval_ms(text)


def test_rows_that_are_taken_back_are_a_change_of_data() -> None:
    assert remove_action(DataFile("a", 3, 9), None, 7, is_lost=True).data_change is True
