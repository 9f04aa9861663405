"""Parquet files of tables: written in place on a disk, by way of a temporary file elsewhere.

A file that was closed is complete in its store, and durable; one that was not is at most an orphan.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crabka.spark.lake.data_files import ColumnRange, DataFile
from crabka.spark.lake.local_disk import telling_of_disk
from crabka.spark.lake.schemas import LOG_COLUMNS, OFFSET, TIMESTAMP
from crabka.spark.lake.store import LakeStore

COMPRESSION = "zstd"
# Rows wait until they are worth a row group: so many bytes here, or so many rows.
GROUP_BYTES = 32 << 20
GROUP_ROWS = 512 * 1024


class ParquetFileWriter:
    """Writes one file. The caller closes it or gives it up."""

    def __init__(self, store: LakeStore, path: str, schema: pa.Schema, *, partition_value: str | None = None) -> None:
        self._store = store
        self._path = path
        self._partition_value = partition_value
        self._rows = 0
        self._offsets: ColumnRange | None = None
        self._timestamps: ColumnRange | None = None
        # Of a store elsewhere it is the temporary file that fills a disk here.
        self._trouble = f"{store.absolute(path)} cannot be written"
        with telling_of_disk(self._trouble):
            self._local_path = self._place()
            self._sink = pa.OSFile(self._local_path, "wb")
            self._writer = pq.ParquetWriter(
                self._sink,
                schema,
                compression=COMPRESSION,
                use_dictionary=_dictionary_columns(schema),
                column_encoding=_delta_columns(schema),
            )

    @property
    def size_bytes(self) -> int:
        """About how large the file would be if it were closed now."""
        return int(self._sink.tell())

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return self._rows

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows as a group of their own. Raises LakeError."""
        with telling_of_disk(self._trouble):
            self._writer.write(batch)
        self._rows += batch.num_rows
        self._offsets = _widened(self._offsets, batch.column(OFFSET))
        self._timestamps = _widened(self._timestamps, batch.column(TIMESTAMP).cast(pa.int64()))

    def close(self) -> DataFile:
        """Finish the file and return its description. Raises LakeError."""
        with telling_of_disk(self._trouble):
            self._writer.close()
            self._sink.close()
        size_bytes = os.path.getsize(self._local_path)
        if self._store.local_directory is None:
            self._store.upload(self._local_path, self._path)
            os.unlink(self._local_path)
        else:
            self._store.sync(self._path)
        return DataFile(self._path, self._rows, size_bytes, self._partition_value, self._offsets, self._timestamps)

    def give_up(self) -> None:
        """Leave nothing behind, if the store lets us."""
        with suppress(pa.ArrowException, OSError):
            self._writer.close()
        self._sink.close()
        with suppress(OSError):
            os.unlink(self._local_path)

    def _place(self) -> str:
        directory = self._store.local_directory
        if directory is None:
            handle, path = tempfile.mkstemp(suffix=".parquet")
            os.close(handle)
            return path
        path = os.path.join(directory, self._path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of an older schema in a newer one: columns by name, nulls for what was not there, also in structs."""
    arrays = [
        pa.nulls(batch.num_rows, column.type)
        if batch.schema.get_field_index(column.name) < 0
        else conform_array(batch.column(column.name), column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def conform_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return an array in a type that has more fields, or fewer, inside its structs."""
    if array.type.equals(wanted):
        return array
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        # By index: a name that begins with a dot or a bracket would be taken for a path.
        places = {field.name: index for index, field in enumerate(array.type)}
        children = [
            conform_array(pc.struct_field(array, [places[field.name]]), field.type)
            if field.name in places
            else pa.nulls(len(array), field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(wanted) and pa.types.is_list(array.type):
        # `flatten` leaves out what is below null lists, which the offsets must then do as well.
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        items = conform_array(array.flatten(), wanted.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=wanted, mask=array.is_null())
    return array.cast(wanted)


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that repeat by nature; for others a dictionary costs more than it saves."""
    return [name for name in schema.names if name in ("kafka_topic", "kafka_topic_id", "kafka_date", "reason")]


def _delta_columns(schema: pa.Schema) -> dict[str, str]:
    """Return the numbers of the log, which differ little from row to row: differences leave little to compress."""
    return {
        field.name: "DELTA_BINARY_PACKED"
        for field in LOG_COLUMNS
        if field.name in schema.names and (pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type))
    }


def _widened(known: ColumnRange | None, column: pa.Array) -> ColumnRange | None:
    least, greatest = pc.min_max(column).values()
    if not least.is_valid:
        return known
    if known is None:
        return ColumnRange(least.as_py(), greatest.as_py())
    return ColumnRange(min(known.least, least.as_py()), max(known.greatest, greatest.as_py()))
