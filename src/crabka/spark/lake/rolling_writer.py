"""Files of about the same size, one value of the partition column in each.

Rows wait until they are worth a row group. If a column has so many values that too many files are open, those with the
most rows in them are finished early.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from crabka.spark.lake.data_files import DataFile, file_name, partition_directory
from crabka.spark.lake.parquet_files import ParquetFileWriter
from crabka.spark.lake.rows import by_partition_value, in_schema
from crabka.spark.lake.schemas import OFFSET, PARTITION
from crabka.spark.lake.store import LakeStore

_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 512 * 1024
_MAX_PENDING_BYTES = 128 << 20
_MAX_OPEN = 64


@dataclass(slots=True)
class _Pending:
    """The rows and the file of one partition value."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0
    rows: int = 0
    writer: ParquetFileWriter | None = None


class RollingWriter:
    """Writes the rows of one task. The caller closes it or gives it up."""

    def __init__(
        self,
        store: LakeStore,
        schema: pa.Schema,
        unique: str,
        *,
        target_bytes: int,
        partition_column: str | None = None,
        stores_partition_column: bool = True,
    ) -> None:
        """`unique` is a text that no other attempt has."""
        self._store = store
        self._unique = unique
        self._target_bytes = target_bytes
        self._column = partition_column
        hidden = None if stores_partition_column else partition_column
        self._schema = pa.schema([column for column in schema if column.name != hidden])
        self._pending: dict[str | None, _Pending] = {}
        self._finished: list[DataFile] = []
        self._number = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows that have all columns of the schema, and more if they like."""
        for value, rows in by_partition_value(batch, self._column):
            pending = self._pending.setdefault(value, _Pending())
            rows = in_schema(rows, self._schema)
            pending.batches.append(rows)
            pending.size_bytes += rows.nbytes
            pending.rows += rows.num_rows
            if pending.size_bytes >= _GROUP_BYTES or pending.rows >= _GROUP_ROWS:
                self._write_group(value, pending)
        self._make_room()

    def close(self) -> list[DataFile]:
        """Finish all files and return them."""
        for value, pending in list(self._pending.items()):
            self._write_group(value, pending)
            self._finish(pending)
        self._pending = {}
        return self._finished

    def give_up(self) -> None:
        """Remove what was written, as far as it can be."""
        for pending in self._pending.values():
            if pending.writer is not None:
                pending.writer.give_up()
        self._pending = {}
        if self._finished:
            self._store.delete([file.path for file in self._finished])
        self._finished = []

    def _write_group(self, value: str | None, pending: _Pending) -> None:
        if pending.batches:
            if pending.writer is None:
                pending.writer = self._new_file(value, pending.batches[0])
            pending.writer.write(pa.Table.from_batches(pending.batches))
            pending.batches, pending.size_bytes, pending.rows = [], 0, 0
        if pending.writer is not None and pending.writer.size_bytes >= self._target_bytes:
            self._finish(pending)

    def _finish(self, pending: _Pending) -> None:
        if pending.writer is not None:
            self._finished.append(pending.writer.close())
            pending.writer = None

    def _make_room(self) -> None:
        while sum(pending.size_bytes for pending in self._pending.values()) > _MAX_PENDING_BYTES:
            value = max(self._pending, key=lambda value: self._pending[value].size_bytes)
            self._write_group(value, self._pending[value])
        while sum(pending.writer is not None for pending in self._pending.values()) > _MAX_OPEN:
            open_values = [value for value, pending in self._pending.items() if pending.writer is not None]
            fullest = max(open_values, key=lambda value: getattr(self._pending[value].writer, "rows", 0))
            self._finish(self._pending[fullest])

    def _new_file(self, value: str | None, first: pa.RecordBatch) -> ParquetFileWriter:
        self._number += 1
        path = file_name(
            partition_directory(self._column, value),
            first.column(OFFSET)[0].as_py(),
            first.column(PARTITION)[0].as_py(),
            f"{self._unique}-{self._number:04d}",
        )
        return ParquetFileWriter(self._store, path, self._schema, partition_value=value)
