"""What is measured on Spark and how good is good enough; in the column of Kafka stands Spark's own Kafka source."""

from __future__ import annotations

from bench.rows import BenchRow, at_most, seen


def _rate(key: str, title: str, experiment: str, bar: float, stretch: float) -> BenchRow:
    return BenchRow(key, title, "rows/s", experiment, higher_is_better=True, bar=bar, stretch=stretch)


def _cpu(key: str, title: str, experiment: str) -> BenchRow:
    return seen(key, title, "s", experiment, higher_is_better=False)


SPARK_ROWS = (
    _rate("read", "read of the topic into nothing", "read", 2.0, 2.8),
    _cpu("read_cpu", "Spark's CPU per million rows read", "read"),
    at_most("broker_bytes", "bytes that brokers send for the read", "B", "read", 0),
    _rate("parquet", "topic to Parquet, zstd", "parquet", 4.0, 6.0),
    _cpu("parquet_cpu", "Spark's CPU per million rows to Parquet", "parquet"),
    seen("parquet_size", "size of the Parquet files", "MB", "parquet", higher_is_better=False),
    _rate("filter", "filter that keeps the last 1 % by timestamp", "filter", 10.0, 20.0),
    at_most("filter_bytes", "share of the tier that the filter reads", "%", "filter", 3.0),
    _rate("count", "count by partition, that column only", "count", 3.0, 5.0),
    _cpu("count_cpu", "Spark's CPU per million rows counted", "count"),
    at_most("memory", "peak memory of the worker that reads a 1 GiB segment", "MB", "memory", 512),
)
