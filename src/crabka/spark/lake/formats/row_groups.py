"""Gathers rows until they are worth a row group, so that files of small batches are as quick to read as others.

A batch takes far more memory than the few rows in it, so that small ones are copied into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

GROUP_BYTES = 32 << 20
GROUP_ROWS = 512 * 1024
_BATCHES_AT_ONCE = 256
# What a column of a batch takes besides its values, as measured with batches of one row.
_COLUMN_OVERHEAD_BYTES = 1024


class RowGroup:
    """Rows that wait for a file."""

    def __init__(self, overhead_bytes: int = 0) -> None:
        """`overhead_bytes` is what each batch takes besides its values."""
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.size_bytes = 0
        self._overhead_bytes = overhead_bytes

    @property
    def memory_bytes(self) -> int:
        """About what the rows take here, which is more than what they take in a file."""
        return self.size_bytes + len(self.batches) * self._overhead_bytes

    @property
    def is_full(self) -> bool:
        """Whether the rows are worth a row group."""
        return self.size_bytes >= GROUP_BYTES or self.rows >= GROUP_ROWS

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes

    def merge(self) -> None:
        """Copy small batches into one."""
        if len(self.batches) > 1:
            self.batches = pa.Table.from_batches(self.batches).combine_chunks().to_batches()

    def take(self) -> pa.Table:
        """Return all rows and begin anew."""
        rows = pa.Table.from_batches(self.batches)
        self.batches, self.rows, self.size_bytes = [], 0, 0
        return rows


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of batches in tables that are worth a row group, but for the last one."""
    group = RowGroup()
    for batch in batches:
        group.add(batch)
        if group.is_full:
            yield group.take()
        elif len(group.batches) >= _BATCHES_AT_ONCE:
            group.merge()
    if group.batches:
        yield group.take()


def batch_overhead_bytes(schema: pa.Schema) -> int:
    """Return about what a batch takes besides its values."""
    return _COLUMN_OVERHEAD_BYTES * sum(_columns_in(column.type) for column in schema)


def _columns_in(kind: pa.DataType) -> int:
    """Return how many columns a column consists of."""
    return 1 + sum(_columns_in(kind.field(index).type) for index in range(kind.num_fields))
