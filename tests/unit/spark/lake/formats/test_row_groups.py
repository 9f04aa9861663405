from __future__ import annotations

import pyarrow as pa
import pytest

from crabka.spark.lake.formats import row_groups
from crabka.spark.lake.formats.row_groups import RowGroup, batch_overhead_bytes


def batch(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(range(rows), pa.int64())})


def test_rows_are_worth_a_group_by_number_or_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("GROUP_ROWS", 10), ("GROUP_BYTES", 80)):
        with monkeypatch.context() as patch:
            patch.setattr(row_groups, name, limit)
            group = RowGroup()
            group.add(batch(9))
            assert not group.is_full
            group.add(batch(1))
            assert group.is_full
            assert group.take().num_rows == 10
            assert (group.rows, group.size_bytes, group.is_full) == (0, 0, False)


def test_merged_batches_take_less_memory_and_keep_their_rows() -> None:
    group = RowGroup(overhead_bytes=1000)
    for _ in range(5):
        group.add(batch(2))
    assert group.memory_bytes == 5 * 1000 + group.size_bytes
    group.merge()
    assert group.memory_bytes == 1000 + group.size_bytes
    assert group.take().column("number").to_pylist() == [0, 1] * 5


def test_nested_columns_count_as_columns() -> None:
    flat, nested = pa.schema([("a", pa.int64())]), pa.schema([("a", pa.struct([("b", pa.list_(pa.int64()))]))])
    assert batch_overhead_bytes(nested) == 3 * batch_overhead_bytes(flat)
