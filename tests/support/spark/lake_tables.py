"""Small tables of every format, and files for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from crabka.spark.lake.formats.data_files import DataFile, file_name, partition_directory
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.table import TableFormat, TableSpec
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.values.schemas import DATE, RAW_VALUE_FIELD, conform, table_schema
from tests.support.tiers import object_stores as _started  # noqa: F401 - before any test takes stock of descriptors

TOPIC_ID = "L2wP1Nn5Q6iBIYkNMxXEhw"
ALL_FORMATS = ("delta", "iceberg", "parquet")
FIRST_TIMESTAMP = datetime(2026, 1, 1, tzinfo=UTC)


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def lake_of(tmp_path: Path, table_format: str) -> Lake:
    return Lake(str(tmp_path / "lake"), table_format, now_ms)


def raw_spec(*, with_date: bool = False) -> TableSpec:
    schema = table_schema([RAW_VALUE_FIELD], with_date=with_date)
    return TableSpec("orders", TOPIC_ID, schema, DATE if with_date else None)


def new_table(lake: Lake, name: str = "orders", *, with_date: bool = False) -> TableFormat:
    return lake.create(name, raw_spec(with_date=with_date))


def rows_of(partition: int, offsets: Sequence[int], **values: pa.Array) -> pa.RecordBatch:
    """Rows whose timestamps are an hour apart."""
    count = len(offsets)
    columns = {
        "kafka_key": pa.array([b"key-%d" % offset for offset in offsets], pa.binary()),
        "kafka_topic": pa.array(["orders"] * count, pa.string()),
        "kafka_topic_id": pa.array([TOPIC_ID] * count, pa.string()),
        "kafka_partition": pa.array([partition] * count, pa.int32()),
        "kafka_offset": pa.array(offsets, pa.int64()),
        "kafka_timestamp": pa.array(
            [FIRST_TIMESTAMP + timedelta(hours=offset) for offset in offsets], pa.timestamp("us", "UTC")
        ),
        "value": pa.array([b"value-%d" % offset for offset in offsets], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns | values)


def day_of(offset: int) -> date:
    return (FIRST_TIMESTAMP + timedelta(hours=offset)).date()


def written(
    lake: Lake, table: TableFormat, partition: int, offsets: Sequence[int], **values: pa.Array
) -> list[DataFile]:
    """Files with rows of these offsets, one per day if the table is partitioned by date."""
    spec = table.spec
    store = lake.store("orders")
    groups: dict[str | None, list[int]] = {}
    for offset in offsets:
        groups.setdefault(None if spec.partition_column is None else day_of(offset).isoformat(), []).append(offset)
    files = []
    for day, members in groups.items():
        batch = rows_of(partition, members, **values)
        schema = spec.schema
        if day is not None:
            batch = batch.append_column(DATE, pa.array([date.fromisoformat(day)] * len(members), pa.date32()))
            if not table.stores_partition_column:
                schema = pa.schema([field for field in schema if field.name != DATE])
        path = file_name(partition_directory(spec.partition_column, day), members[0], partition, str(uuid4()))
        writer = ParquetFileWriter(store, path, schema, partition_value=day)
        writer.write(conform(batch, schema))
        files.append(writer.close())
    return files
