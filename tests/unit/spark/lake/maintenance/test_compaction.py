from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crabka.spark.lake.errors import CommitConflictError
from crabka.spark.lake.formats import row_groups
from crabka.spark.lake.formats.data_files import ColumnRange, DataFile
from crabka.spark.lake.formats.parquet_reading import read_batches
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import TableSpec
from crabka.spark.lake.maintenance.compaction import (
    Compaction,
    compact_once,
    compact_table,
    compaction_groups,
    merge_files,
)
from crabka.spark.lake.values.schemas import merge_schemas
from tests.support.spark.lake_tables import lake_of, new_table, written


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


def test_rows_of_small_files_share_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    group = [each for offset in range(12) for each in written(lake, table, 0, [offset])]
    for rows, together, sizes in ((100, 256, [12]), (5, 256, [5, 5, 2]), (100, 3, [12])):
        monkeypatch.setattr(row_groups, "GROUP_ROWS", rows)
        monkeypatch.setattr(row_groups, "_BATCHES_AT_ONCE", together)
        merged = merge_files(lake.store("orders"), group, table.spec.schema, None)
        file = pq.ParquetFile(Path(lake.root) / "orders" / merged.path)
        assert [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)] == sizes
        assert file.read(["kafka_offset"]).column(0).to_pylist() == list(range(12))


def test_a_merge_that_fails_leaves_no_file(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    group = written(lake, table, 0, range(3))
    directory = Path(lake.root) / "orders"
    before = sorted(directory.rglob("*.parquet"))
    with pytest.raises(FileNotFoundError):
        merge_files(lake.store("orders"), [*group, file("gone.parquet", 1, 1)], table.spec.schema, None)
    assert sorted(directory.rglob("*.parquet")) == before


@dataclass
class ScriptedTable:
    """A table of small files whose replacements end as a script says: "ok", "conflict", "taken", or "lost" answer."""

    live: list[DataFile]
    script: list[str]
    spec: TableSpec
    store: LakeStore
    stores_partition_column: bool = True
    tried: list[list[str]] = field(default_factory=list)

    def refresh(self) -> None:
        pass

    def files(self) -> list[DataFile]:
        return self.live

    def replace(self, replaced: Sequence[DataFile], merged: Sequence[DataFile]) -> None:
        self.tried.append([each.path for each in merged])
        step = self.script.pop(0)
        if step == "taken":
            self.live = [file("theirs", 9, 0)]
        if step in ("ok", "lost"):
            self.live = [each for each in self.live if each not in replaced] + list(merged)
        if step != "ok":
            raise CommitConflictError("another writer")


def scripted(tmp_path: Path, *script: str) -> ScriptedTable:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    live = written(lake, table, 0, range(3)) + written(lake, table, 0, range(3, 5))
    return ScriptedTable(live, list(script), table.spec, table.store)


def test_what_was_merged_once_is_committed_over_the_changes_of_others(tmp_path: Path) -> None:
    table = scripted(tmp_path, *["conflict"] * 7, "ok")
    assert compact_table(table, 1 << 20) == Compaction(2, 1)
    assert [each.rows for each in table.live] == [5]
    assert len(table.tried) == 8
    assert all(paths == table.tried[0] for paths in table.tried)


def test_a_compaction_that_landed_without_an_answer_is_not_repeated(tmp_path: Path) -> None:
    table = scripted(tmp_path, "lost")
    assert compact_table(table, 1 << 20) == Compaction(2, 1)
    assert len(table.tried) == 1


@pytest.mark.parametrize("script", [["taken"], ["conflict"] * 100])
def test_a_compaction_ends_if_its_files_are_gone_or_others_never_rest(tmp_path: Path, script: list[str]) -> None:
    table = scripted(tmp_path, *script)
    with pytest.raises(CommitConflictError):
        compact_table(table, 1 << 20)


def test_a_compaction_that_others_got_in_the_way_of_is_made_again(tmp_path: Path) -> None:
    table = scripted(tmp_path, *["conflict"] * 20, "ok")
    assert compact_once(table, 1 << 20) == Compaction(2, 1)
    assert table.script == []
    with pytest.raises(CommitConflictError):
        compact_once(scripted(tmp_path / "other", *["conflict"] * 100), 1 << 20)
