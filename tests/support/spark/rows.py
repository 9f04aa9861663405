"""Reading through Spark in tests: options in, plain rows out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]


def load(spark: SparkSession, options: Mapping[str, str], source: str = "crabka") -> DataFrame:
    """Return a batch read."""
    return spark.read.format(source).options(**options).load()


def rows_of(frame: DataFrame) -> Rows:
    """Return all rows as plain values, in the order of topics, partitions and offsets."""
    place = ["topic", "partition", "offset"]
    found = [tuple(_plain(value) for value in row) for row in frame.collect()]
    keys = [frame.columns.index(name) for name in place if name in frame.columns]
    return sorted(found, key=lambda row: tuple(row[key] for key in keys))


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [tuple(_plain(part) for part in each) for each in value]
    return value
