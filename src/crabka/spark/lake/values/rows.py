"""Rows of the log as rows of a table: names, topic id, date, the columns of values, and the rows of dead letters.

Pure: Arrow in, Arrow out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from crabka.spark.lake.values.schemas import (
    DATE,
    FIRST_CALENDAR_DAY,
    FIRST_CALENDAR_US,
    LAST_CALENDAR_DAY,
    LAST_CALENDAR_US,
    OFFSET,
    PARTITION,
    RAW_VALUE,
    REASON,
    TIMESTAMP,
)
from crabka.spark.lake.values.value_modes import DecodedValues, ValueDecoder, rows_but

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
# Iceberg knows a file's partition from the least and the greatest value in its footer, which has no longer ones.
MAX_PARTITION_BYTES = 1024


@dataclass(frozen=True, slots=True)
class TableRows:
    """What some rows of the log become."""

    good: pa.RecordBatch
    # With the value as it is and the reason; None if all rows are good.
    bad: pa.RecordBatch | None
    new_fields: Sequence[pa.Field] = ()


def table_rows(
    batch: pa.RecordBatch, topic_id: str, decoder: ValueDecoder, partition_column: str | None = None
) -> TableRows:
    """Return rows of the source as rows of a table that is partitioned by a column; only such tables have the date."""
    count = batch.num_rows
    columns = {name: batch.column(source) for name, source in _SOURCE_NAMES.items()}
    columns["kafka_topic_id"] = pa.repeat(pa.scalar(topic_id), count)
    if partition_column == DATE:
        columns[DATE] = _dates(columns[TIMESTAMP])
    values = batch.column("value")
    decoded = _partitionable(decoder.decode(values), count, partition_column)
    if not decoded.bad:
        good = columns | _named(decoded.fields, decoded.columns)
        return TableRows(pa.RecordBatch.from_pydict(good), None, decoded.new_fields)
    kept, lost = rows_but(count, decoded.bad), pa.array([index for index, _ in decoded.bad], pa.int64())
    good = {name: column.take(kept) for name, column in columns.items()} | _named(decoded.fields, decoded.columns)
    bad = {name: column.take(lost) for name, column in columns.items()}
    bad |= {RAW_VALUE: values.take(lost), REASON: pa.array([reason for _, reason in decoded.bad], pa.string())}
    return TableRows(pa.RecordBatch.from_pydict(good), pa.RecordBatch.from_pydict(bad), decoded.new_fields)


def without_offsets(batch: pa.RecordBatch, known: dict[int, Collection[int]]) -> pa.RecordBatch:
    """Return rows without those whose partition and offset are known."""
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
    encoded = batch.column(column).dictionary_encode(null_encoding="encode")
    if len(encoded.dictionary) == 1:
        yield partition_text(encoded.dictionary[0]), batch
        return
    # The sort is stable, so that offsets stay in order.
    order = pc.sort_indices(encoded.indices)
    runs = pc.run_end_encode(encoded.indices.take(order))
    start = 0
    for code, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        # Taken, not cut from sorted rows: a few rows that wait for long would keep all others in memory.
        yield partition_text(encoded.dictionary[code]), batch.take(order.slice(start, end - start))
        start = end


def topic_partition_in(rows: pa.RecordBatch | pa.Table, column: str | None, value: str | None) -> int:
    """Return the topic partition of the rows of a file, of the first one if there are several; 0 without rows.

    `value` is what all rows have in the column that their table is partitioned by, which may not be among theirs.
    """
    if column == PARTITION and value is not None:
        return int(value)
    return int(rows.column(PARTITION)[0].as_py()) if rows.num_rows else 0


def partition_text(value: pa.Scalar) -> str | None:
    """Return the value of a partition column as formats write it."""
    content = value.as_py()
    if content is None:
        return None
    return str(content).lower() if isinstance(content, bool) else str(content)


def _dates(timestamps: pa.Array) -> pa.Array:
    """Return days; null where producers sent something that no calendar has, microseconds for instance."""
    numbers = timestamps.cast(pa.int64())
    possible = pc.and_(pc.greater_equal(numbers, FIRST_CALENDAR_US), pc.less_equal(numbers, LAST_CALENDAR_US))
    return pc.if_else(possible, timestamps, pa.scalar(None, timestamps.type)).cast(pa.date32())


def _partitionable(decoded: DecodedValues, count: int, column: str | None) -> DecodedValues:
    """Return values without those of `count` rows that no partition can have."""
    places = [index for index, field in enumerate(decoded.fields) if field.name == column]
    unfit = [] if not places else _unfit_for_partitions(decoded.columns[places[0]])
    if not unfit:
        return decoded
    rows, kept = rows_but(count, decoded.bad), rows_but(len(decoded.columns[places[0]]), unfit)
    return replace(
        decoded,
        columns=[each.take(kept) for each in decoded.columns],
        bad=sorted([*decoded.bad, *((rows[index].as_py(), f"{column}: {reason}") for index, reason in unfit)]),
    )


def _unfit_for_partitions(values: pa.Array) -> list[tuple[int, str]]:
    if pa.types.is_string(values.type):
        reason = f"longer than {MAX_PARTITION_BYTES} bytes, which no partition's value may be"
        unfit = pc.greater(pc.binary_length(values), MAX_PARTITION_BYTES)
    elif pa.types.is_date(values.type):
        reason, days = "a day that no calendar has", values.cast(pa.int32())
        unfit = pc.or_(pc.less(days, FIRST_CALENDAR_DAY), pc.greater(days, LAST_CALENDAR_DAY))
    else:
        return []
    return [(index, reason) for index in pc.indices_nonzero(unfit).to_pylist()]


def _named(fields: Sequence[pa.Field], columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
    return {field.name: column for field, column in zip(fields, columns, strict=True)}
