"""Files of about the same size, one value of the partition column in each.

Rows wait until they are worth a row group. If a column has so many values that too many files are open, those with the
most rows in them are finished early. Rows of many values wait in many small batches, which take far more memory than
their bytes, so that every batch counts for more than it holds, and small ones are merged.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from crabka.spark.lake.formats.data_files import DataFile, file_name, partition_directory
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.row_groups import RowGroup, batch_overhead_bytes
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.values.rows import by_partition_value, topic_partition_in
from crabka.spark.lake.values.schemas import OFFSET, conform

_MAX_PENDING_BYTES = 128 << 20
_MAX_OPEN = 64


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
        self._rows_schema = schema
        hidden = None if stores_partition_column else partition_column
        self._schema = pa.schema([column for column in schema if column.name != hidden])
        self._overhead_bytes = batch_overhead_bytes(self._schema)
        self._waiting: dict[str | None, RowGroup] = {}
        self._open: dict[str | None, ParquetFileWriter] = {}
        self._finished: list[DataFile] = []
        self._number = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows that have all columns of the schema, and more if they like."""
        for value, rows in by_partition_value(conform(batch, self._rows_schema), self._column):
            group = self._waiting.setdefault(value, RowGroup(self._overhead_bytes))
            group.add(rows.select(self._schema.names))
            if group.is_full:
                self._write_group(value)
        self._make_room()

    def close(self) -> list[DataFile]:
        """Finish all files and return them."""
        for value in self._waiting:
            self._write_group(value)
            self._finish(value)
        self._waiting = {}
        return self._finished

    def give_up(self) -> None:
        """Remove what was written, as far as possible; errors are suppressed, so that they do not hide the cause."""
        for writer in self._open.values():
            with suppress(Exception):
                writer.give_up()
        self._waiting, self._open = {}, {}
        if self._finished:
            with suppress(Exception):
                self._store.delete([file.path for file in self._finished])
        self._finished = []

    def _write_group(self, value: str | None) -> None:
        group = self._waiting[value]
        if group.batches:
            if value not in self._open:
                self._open[value] = self._new_file(value, group.batches[0])
            self._open[value].write(group.take())
        if value in self._open and self._open[value].size_bytes >= self._target_bytes:
            self._finish(value)
        if len(self._open) > _MAX_OPEN:
            self._finish(max(self._open, key=lambda value: self._open[value].rows))

    def _finish(self, value: str | None) -> None:
        writer = self._open.pop(value, None)
        if writer is not None:
            self._finished.append(writer.close())

    def _make_room(self) -> None:
        """Merge what waits if it takes too much memory, and write some if it still takes more than half of that.

        Down to a half, since merging copies everything: it is worth it only if there is room for a while then.
        """
        if self._memory_bytes() <= _MAX_PENDING_BYTES:
            return
        for group in self._waiting.values():
            group.merge()
        excess_bytes = self._memory_bytes() - _MAX_PENDING_BYTES // 2
        for value, group in sorted(self._waiting.items(), key=lambda item: item[1].memory_bytes, reverse=True):
            if excess_bytes <= 0:
                return
            excess_bytes -= group.memory_bytes
            self._write_group(value)

    def _memory_bytes(self) -> int:
        return sum(group.memory_bytes for group in self._waiting.values())

    def _new_file(self, value: str | None, first: pa.RecordBatch) -> ParquetFileWriter:
        self._number += 1
        path = file_name(
            partition_directory(self._column, value),
            first.column(OFFSET)[0].as_py(),
            topic_partition_in(first, self._column, value),
            f"{self._unique}-{self._number:04d}",
        )
        return ParquetFileWriter(self._store, path, self._schema, partition_value=value)
