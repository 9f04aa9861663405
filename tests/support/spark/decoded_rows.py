"""Rows of stored batches as the plain decoder of `crabka.records` gives them, to compare Arrow batches with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from crabka.records import Record, build_batch, decode_records
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import iter_headers
from crabka.spark.decode import AbortedTransactions, BatchDecoder, Origin, RowRange, spark_schema_columns

ORIGIN = Origin("orders", 3, "orders-3/00000000000000000000.log", 1_000)
EVERYTHING = RowRange(0, 1 << 62)
ALL_COLUMNS = spark_schema_columns()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


def expected_rows(data: bytes, rows: RowRange = EVERYTHING, dropped: Collection[int] = ()) -> list[Row]:
    """The rows of all whole batches, without control records and without batches at the `dropped` base offsets."""
    return [
        _expected_row(record, header.timestamp_type)
        for position, header in iter_headers(data)
        if not header.is_control and header.base_offset not in dropped
        for record in decode_records(data[position : position + header.size_in_bytes])
        if rows.start_offset <= record.offset < rows.end_offset
    ]


def _expected_row(record: Record, timestamp_type: int) -> Row:
    headers = [{"key": name, "value": value} for name, value in record.headers]
    return {
        "key": record.key,
        "value": record.value,
        "topic": ORIGIN.topic,
        "partition": ORIGIN.partition,
        "offset": record.offset,
        "timestamp": _EPOCH + timedelta(milliseconds=record.timestamp),
        "timestampType": timestamp_type,
        "headers": headers or None,
    }


def decoded_rows(
    data: bytes,
    rows: RowRange = EVERYTHING,
    aborted: AbortedTransactions | None = None,
    *,
    columns: Sequence[str] = ALL_COLUMNS,
    **settings: Any,
) -> list[Row]:
    """The rows that the decoder gives, after a full check of its Arrow batches."""
    return rows_in(BatchDecoder(columns, **settings).decode(data, ORIGIN, rows, aborted))


def rows_in(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of Arrow batches, which must be sound and not empty."""
    rows: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows
        rows += batch.to_pylist()
    return rows


def records(count: int, *, start: int = 0, size: int = 20) -> list[Record]:
    """So many different records with key and value."""
    return [
        Record(0, 1_700_000_000_000 + 7 * index, b"key-%d" % (index % 5), (b"value-%d-" % index).ljust(size, b"."))
        for index in range(start, start + count)
    ]


def log_of(*counts: int, **settings: Any) -> bytes:
    """Batches with so many records each, offsets from 0 on."""
    data = b""
    offset = 0
    for count in counts:
        data += build_batch(records(count, start=offset), base_offset=offset, **settings)
        offset += count
    return data


def marker(producer_id: int, offset: int, *, committed: bool) -> bytes:
    """The end of a transaction."""
    return build_end_transaction_batch(
        EndTransactionMarker(committed, 0),
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=1_700_000_000_000,
    )
