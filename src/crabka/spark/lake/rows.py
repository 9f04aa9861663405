"""Rows of the log as rows of a table: names, topic id, date, the columns of values, and the rows that go elsewhere.

Pure: Arrow in, Arrow out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from crabka.spark.lake.parquet_files import conform
from crabka.spark.lake.schemas import (
    DATE,
    FIRST_CALENDAR_US,
    LAST_CALENDAR_US,
    OFFSET,
    PARTITION,
    RAW_VALUE,
    REASON,
    TIMESTAMP,
)
from crabka.spark.lake.value_modes import ValueDecoder, rows_but

# How the columns of the source are called in tables.
_SOURCE_NAMES = {
    "kafka_key": "key",
    "kafka_topic": "topic",
    PARTITION: "partition",
    OFFSET: "offset",
    TIMESTAMP: "timestamp",
    "kafka_timestamp_type": "timestampType",
    "kafka_headers": "headers",
}
READ_COLUMNS = (*_SOURCE_NAMES.values(), "value")


@dataclass(frozen=True, slots=True)
class TableRows:
    """What some rows of the log become."""

    good: pa.RecordBatch
    # With the value as it is and the reason; None if all rows are good.
    bad: pa.RecordBatch | None
    new_fields: Sequence[pa.Field] = ()


def table_rows(batch: pa.RecordBatch, topic_id: str, decoder: ValueDecoder, *, with_date: bool = True) -> TableRows:
    """Return rows of the source as rows of a table, with all columns that a table may have.

    The date takes longer to find than all others, so that who has no column for it leaves it out.
    """
    count = batch.num_rows
    columns = {name: batch.column(source) for name, source in _SOURCE_NAMES.items()}
    columns["kafka_topic_id"] = pa.repeat(pa.scalar(topic_id), count)
    if with_date:
        columns[DATE] = _dates(columns[TIMESTAMP])
    values = batch.column("value")
    decoded = decoder.decode(values)
    if not decoded.bad:
        good = columns | _named(decoded.fields, decoded.columns)
        return TableRows(pa.RecordBatch.from_pydict(good), None, decoded.new_fields)
    kept, lost = rows_but(count, decoded.bad), pa.array([index for index, _ in decoded.bad], pa.int64())
    good = {name: column.take(kept) for name, column in columns.items()} | _named(decoded.fields, decoded.columns)
    bad = {name: column.take(lost) for name, column in columns.items()}
    bad |= {RAW_VALUE: values.take(lost), REASON: pa.array([reason for _, reason in decoded.bad], pa.string())}
    return TableRows(pa.RecordBatch.from_pydict(good), pa.RecordBatch.from_pydict(bad), decoded.new_fields)


def without_offsets(batch: pa.RecordBatch, known: dict[int, Collection[int]]) -> pa.RecordBatch:
    """Return rows but for those whose partition and offset are known."""
    if not known:
        return batch
    kept = [
        index
        for index, (partition, offset) in enumerate(
            zip(batch.column(PARTITION).to_pylist(), batch.column(OFFSET).to_pylist(), strict=True)
        )
        if offset not in known.get(partition, ())
    ]
    return batch.take(pa.array(kept, pa.int64()))


def by_partition_value(batch: pa.RecordBatch, column: str | None) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Return the rows of each value of a column apart, with the value as text."""
    if column is None or batch.num_rows == 0:
        if batch.num_rows:
            yield None, batch
        return
    values = batch.column(column)
    distinct = values.unique()
    if len(distinct) == 1:
        yield partition_text(distinct[0]), batch
        return
    for value in distinct:
        chosen = pc.equal(values, value) if value.is_valid else values.is_null()
        yield partition_text(value), batch.filter(chosen)


def partition_text(value: pa.Scalar) -> str | None:
    """Return the value of a partition column as formats write it."""
    content = value.as_py()
    if content is None:
        return None
    return str(content).lower() if isinstance(content, bool) else str(content)


def in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema, in its order; what a row does not have is null."""
    return conform(batch, schema)


def _dates(timestamps: pa.Array) -> pa.Array:
    """Return days; null where producers sent something that no calendar has, microseconds for instance."""
    numbers = timestamps.cast(pa.int64())
    possible = pc.and_(pc.greater_equal(numbers, FIRST_CALENDAR_US), pc.less_equal(numbers, LAST_CALENDAR_US))
    return pc.if_else(possible, timestamps, pa.scalar(None, timestamps.type)).cast(pa.date32())


def _named(fields: Sequence[pa.Field], columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
    return {field.name: column for field, column in zip(fields, columns, strict=True)}
