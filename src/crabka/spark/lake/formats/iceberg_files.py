"""Files of an Iceberg table as tables of every format describe theirs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from struct import Struct

from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from crabka.spark.lake.formats.data_files import ColumnRange, DataFile
from crabka.spark.lake.values.schemas import OFFSET

# How Iceberg keeps bounds of long columns.
_LONG = Struct("<q")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def data_file(file: IcebergFile, path: str, schema: Schema, partitioning: PartitionSpec) -> DataFile:
    """Return the description of a file; the path is relative to the table."""
    return DataFile(
        path,
        file.record_count,
        file.file_size_in_bytes,
        _partition_text(file.partition[0], schema, partitioning) if partitioning.fields else None,
        _offsets_of(file, schema),
    )


def _offsets_of(file: IcebergFile, schema: Schema) -> ColumnRange | None:
    column = schema.find_field(OFFSET).field_id
    least, greatest = (file.lower_bounds or {}).get(column), (file.upper_bounds or {}).get(column)
    if least is None or greatest is None:
        return None
    return ColumnRange(_LONG.unpack(least)[0], _LONG.unpack(greatest)[0])


def _partition_text(value: object, schema: Schema, partitioning: PartitionSpec) -> str | None:
    """Return the value of the partition column as DataFile has it; Iceberg keeps dates as days."""
    if value is None:
        return None
    column = schema.find_field(partitioning.fields[0].source_id)
    if str(column.field_type) == "date" and isinstance(value, int):
        return (_EPOCH + timedelta(days=value)).date().isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)
