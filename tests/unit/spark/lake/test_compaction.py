from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from crabka.spark.lake.compaction import compaction_groups, merge_files
from crabka.spark.lake.data_files import ColumnRange, DataFile
from crabka.spark.lake.parquet_files import read_batches
from crabka.spark.lake.schemas import merge_schemas
from tests.support.lake_tables import lake_of, new_table, written


def file(name: str, size: int, first: int, value: str | None = None) -> DataFile:
    return DataFile(name, 1, size, value, ColumnRange(first, first))


def test_small_files_of_a_partition_are_grouped_in_the_order_of_offsets() -> None:
    files = [file("c", 30, 3), file("a", 30, 1), file("b", 30, 2), file("d", 60, 4), file("e", 30, 5)]
    assert [[each.path for each in group] for group in compaction_groups(files, 100)] == [["a", "b", "c"], ["d", "e"]]


def test_files_of_different_partitions_stay_apart() -> None:
    files = [file("a", 1, 1, "x"), file("b", 1, 2, "y"), file("c", 1, 3, "x"), file("d", 1, 4)]
    assert [[each.path for each in group] for group in compaction_groups(files, 100)] == [["a", "c"]]


def test_files_that_are_large_enough_are_left_alone() -> None:
    assert compaction_groups([file("a", 75, 1), file("b", 99, 2), file("c", 74, 3)], 100) == []


def test_merged_rows_have_the_columns_of_the_table(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    group = written(lake, table, 0, range(3)) + written(lake, table, 1, range(5, 7))
    wider = merge_schemas(table.spec.schema, pa.schema([("late", pa.int64())]))
    merged = merge_files(lake.store("orders"), group, wider, None)
    assert (merged.rows, merged.offsets) == (5, ColumnRange(0, 6))
    rows = [row for batch in read_batches(lake.store("orders"), merged.path) for row in batch.to_pylist()]
    assert [(row["kafka_partition"], row["kafka_offset"], row["late"]) for row in rows] == [
        *((0, offset, None) for offset in range(3)),
        *((1, offset, None) for offset in range(5, 7)),
    ]


def test_a_merge_that_fails_leaves_no_file(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    group = written(lake, table, 0, range(3))
    directory = Path(lake.root) / "orders"
    before = sorted(directory.rglob("*.parquet"))
    with pytest.raises(FileNotFoundError):
        merge_files(lake.store("orders"), [*group, file("gone.parquet", 1, 1)], table.spec.schema, None)
    assert sorted(directory.rglob("*.parquet")) == before
