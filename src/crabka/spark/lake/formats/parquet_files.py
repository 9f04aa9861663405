"""Parquet files of tables: written in place on a local disk, and through a temporary file for an object store.

A file that was closed is complete in its store, and durable; one that was not is at most an orphan.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crabka.spark.lake.formats.data_files import ColumnRange, DataFile
from crabka.spark.lake.formats.local_disk import reporting_disk_errors
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.values.schemas import LOG_COLUMNS, OFFSET, TIMESTAMP

COMPRESSION = "zstd"


class ParquetFileWriter:
    """Writes one file. The caller closes it or gives it up."""

    def __init__(self, store: LakeStore, path: str, schema: pa.Schema, *, partition_value: str | None = None) -> None:
        self._store = store
        self._path = path
        self._partition_value = partition_value
        self._rows = 0
        self._offsets: ColumnRange | None = None
        self._timestamps: ColumnRange | None = None
        # For an object store this is the temporary file, which may fill a local disk.
        self._trouble = f"{store.absolute(path)} cannot be written"
        with reporting_disk_errors(self._trouble):
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
        with reporting_disk_errors(self._trouble):
            self._writer.write(batch)
        self._rows += batch.num_rows
        self._offsets = _widened(self._offsets, batch.column(OFFSET))
        self._timestamps = _widened(self._timestamps, batch.column(TIMESTAMP).cast(pa.int64()))

    def close(self) -> DataFile:
        """Finish the file and return its description. Raises LakeError."""
        with reporting_disk_errors(self._trouble):
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
        """Remove what was written, if the store allows it."""
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
