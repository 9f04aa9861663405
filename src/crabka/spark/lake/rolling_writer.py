"""Files of about the same size, one value of the partition column in each.

Rows wait until they are worth a row group. If a column has so many values that too many files are open, those with the
most rows in them are finished early. Rows of many values wait in many small batches, which take far more memory than
their bytes, so that every batch counts for more than it holds, and small ones are merged.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from crabka.spark.lake.data_files import DataFile, file_name, partition_directory
from crabka.spark.lake.parquet_files import GROUP_BYTES, GROUP_ROWS, ParquetFileWriter, conform
from crabka.spark.lake.rows import by_partition_value, topic_partition_in
from crabka.spark.lake.schemas import OFFSET
from crabka.spark.lake.store import LakeStore

_MAX_PENDING_BYTES = 128 << 20
_MAX_OPEN = 64
# What a column of a batch takes besides its values, as measured with batches of one row.
_COLUMN_OVERHEAD_BYTES = 1024


@dataclass(slots=True)
class _Pending:
    """The rows and the file of one partition value."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0
    # About what the rows take here, which is more than what they take in a file.
    memory_bytes: int = 0
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
        self._rows_schema = schema
        hidden = None if stores_partition_column else partition_column
        self._schema = pa.schema([column for column in schema if column.name != hidden])
        self._overhead_bytes = _COLUMN_OVERHEAD_BYTES * sum(_columns_in(column.type) for column in schema)
        self._pending: dict[str | None, _Pending] = {}
        # Those of the pending ones that have a file.
        self._open: dict[str | None, _Pending] = {}
        self._finished: list[DataFile] = []
        self._number = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows that have all columns of the schema, and more if they like."""
        for value, rows in by_partition_value(conform(batch, self._rows_schema), self._column):
            pending = self._pending.setdefault(value, _Pending())
            pending.batches.append(rows.select(self._schema.names))
            pending.size_bytes += rows.nbytes
            pending.memory_bytes += rows.nbytes + self._overhead_bytes
            pending.rows += rows.num_rows
            if pending.size_bytes >= GROUP_BYTES or pending.rows >= GROUP_ROWS:
                self._write_group(value, pending)
        self._make_room()

    def close(self) -> list[DataFile]:
        """Finish all files and return them."""
        for value, pending in list(self._pending.items()):
            self._write_group(value, pending)
            self._finish(value)
        self._pending = {}
        return self._finished

    def give_up(self) -> None:
        """Remove what was written, as far as it can be; what made the caller give up matters more than what cannot."""
        for pending in self._pending.values():
            if pending.writer is not None:
                with suppress(Exception):
                    pending.writer.give_up()
        self._pending, self._open = {}, {}
        if self._finished:
            with suppress(Exception):
                self._store.delete([file.path for file in self._finished])
        self._finished = []

    def _write_group(self, value: str | None, pending: _Pending) -> None:
        if pending.batches:
            if pending.writer is None:
                pending.writer = self._new_file(value, pending.batches[0])
                self._open[value] = pending
            pending.writer.write(pa.Table.from_batches(pending.batches))
            pending.batches, pending.size_bytes, pending.memory_bytes, pending.rows = [], 0, 0, 0
        if pending.writer is not None and pending.writer.size_bytes >= self._target_bytes:
            self._finish(value)
        if len(self._open) > _MAX_OPEN:
            self._finish(max(self._open, key=lambda value: getattr(self._open[value].writer, "rows", 0)))

    def _finish(self, value: str | None) -> None:
        pending = self._open.pop(value, None)
        if pending is not None and pending.writer is not None:
            self._finished.append(pending.writer.close())
            pending.writer = None

    def _make_room(self) -> None:
        """Merge what waits if it takes too much memory, and write some if it still takes more than half of that.

        Down to a half, as merging copies everything: it is worth it only if there is room for a while then.
        """
        if sum(pending.memory_bytes for pending in self._pending.values()) <= _MAX_PENDING_BYTES:
            return
        for pending in self._pending.values():
            if len(pending.batches) > 1:
                pending.batches = pa.Table.from_batches(pending.batches).combine_chunks().to_batches()
                pending.memory_bytes = pending.size_bytes + len(pending.batches) * self._overhead_bytes
        memory_bytes = sum(pending.memory_bytes for pending in self._pending.values())
        self._write_largest(memory_bytes - _MAX_PENDING_BYTES // 2)

    def _write_largest(self, enough_bytes: int) -> None:
        """Write those of the most memory until so much is free."""
        for value in sorted(self._pending, key=lambda value: self._pending[value].memory_bytes, reverse=True):
            if enough_bytes <= 0:
                return
            enough_bytes -= self._pending[value].memory_bytes
            self._write_group(value, self._pending[value])

    def _new_file(self, value: str | None, first: pa.RecordBatch) -> ParquetFileWriter:
        self._number += 1
        path = file_name(
            partition_directory(self._column, value),
            first.column(OFFSET)[0].as_py(),
            topic_partition_in(first, self._column, value),
            f"{self._unique}-{self._number:04d}",
        )
        return ParquetFileWriter(self._store, path, self._schema, partition_value=value)


def _columns_in(kind: pa.DataType) -> int:
    """Return how many columns a column consists of."""
    return 1 + sum(_columns_in(kind.field(index).type) for index in range(kind.num_fields))
