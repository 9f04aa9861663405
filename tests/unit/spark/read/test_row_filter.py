from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from crabka.spark.options.where import parse_where
from crabka.spark.read.row_filter import columns_to_decode, wanted_rows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = pa.RecordBatch.from_pydict(
    {
        "topic": pa.array(["a", "a", "b", "b"]),
        "partition": pa.array([0, 1, 2, 3], pa.int32()),
        "offset": pa.array([10, 11, 12, 13], pa.int64()),
        "timestamp": pa.array([NOON + timedelta(milliseconds=each) for each in range(4)], pa.timestamp("us", "UTC")),
    }
)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("offset > 11", [12, 13]),
        ("offset >= 11 and offset < 13", [11, 12]),
        ("offset <= 10", [10]),
        ("offset in (13, 99)", [13]),
        ("partition != 2", [10, 11, 13]),
        ("partition = 9000000000", []),
        ("partition between 1 and 2 and topic = 'b'", [12]),
        ("topic in ('a', 'x')", [10, 11]),
        ("timestamp > '2026-01-01 12:00:00.001'", [12, 13]),
        ("timestamp = '2026-01-01 14:00:00+02:00'", [10]),
    ],
)
def test_rows_that_pass_are_left(text: str, offsets: list[int]) -> None:
    assert wanted_rows(ROWS, parse_where(text)).column("offset").to_pylist() == offsets


def test_without_conditions_rows_are_as_they_are() -> None:
    assert wanted_rows(ROWS, ()) is ROWS


def test_columns_of_conditions_come_after_those_that_are_asked_for() -> None:
    where = parse_where("timestamp > '2026-01-01' and offset > 5 and timestamp < '2027-01-01'")
    assert columns_to_decode(["offset", "key"], where) == ("offset", "key", "timestamp")
