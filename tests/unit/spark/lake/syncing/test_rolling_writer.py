from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats import row_groups
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.syncing import rolling_writer
from crabka.spark.lake.syncing.rolling_writer import RollingWriter
from crabka.spark.lake.values.schemas import merge_schemas
from tests.support.spark.lake_tables import raw_spec, rows_of


def writer(tmp_path: Path, *, target: int = 1 << 30, column: str | None = None, stores: bool = True) -> RollingWriter:
    schema = merge_schemas(raw_spec().schema, pa.schema([("kind", pa.string())]))
    return RollingWriter(
        LakeStore(str(tmp_path), "t"),
        schema,
        "attempt",
        target_bytes=target,
        partition_column=column,
        stores_partition_column=stores,
    )


def kinds(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def test_small_batches_become_one_row_group(tmp_path: Path) -> None:
    rolling = writer(tmp_path)
    for offset in range(10):
        rolling.write(rows_of(0, [offset]))
    [file] = rolling.close()
    found = pq.ParquetFile(tmp_path / "t" / file.path)
    assert (file.rows, found.num_row_groups) == (10, 1)


def test_a_file_is_finished_when_it_is_large_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "GROUP_ROWS", 10)
    rolling = writer(tmp_path, target=1)
    for start in range(0, 40, 5):
        rolling.write(rows_of(0, range(start, start + 5)))
    files = rolling.close()
    assert [file.rows for file in files] == [10] * 4
    assert len({file.path for file in files}) == 4


def test_each_value_has_files_of_its_own(tmp_path: Path) -> None:
    rolling = writer(tmp_path, column="kind", stores=False)
    rolling.write(rows_of(0, range(4), kind=kinds("a", "b", None, "a")))
    rolling.write(rows_of(0, [4], kind=kinds("b")))
    files = {file.partition_value: file for file in rolling.close()}
    assert {value: file.rows for value, file in files.items()} == {"a": 2, "b": 2, None: 1}
    assert "kind" not in pq.read_schema(tmp_path / "t" / files["a"].path).names


def test_many_values_do_not_keep_many_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_writer, "_MAX_OPEN", 3)
    monkeypatch.setattr(row_groups, "GROUP_ROWS", 1)
    rolling = writer(tmp_path, column="kind")
    for turn in range(2):
        offsets = range(turn * 20, turn * 20 + 20)
        rolling.write(rows_of(0, offsets, kind=kinds(*(f"k{offset % 20}" for offset in offsets))))
        assert len(rolling._open) <= 3
    files = rolling.close()
    assert sum(file.rows for file in files) == 40
    assert {file.partition_value for file in files} == {f"k{number}" for number in range(20)}


def test_rows_that_wait_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_writer, "_MAX_PENDING_BYTES", 1000)
    rolling = writer(tmp_path, column="kind")
    rolling.write(rows_of(0, range(30), kind=kinds(*(f"k{number % 3}" for number in range(30)))))
    assert sum(group.size_bytes for group in rolling._waiting.values()) <= 1000
    assert sum(file.rows for file in rolling.close()) == 30


def test_many_small_batches_count_for_what_they_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_writer, "_MAX_PENDING_BYTES", 1 << 20)
    monkeypatch.setattr(rolling_writer, "_MAX_OPEN", 3)
    rolling = writer(tmp_path, column="kind")
    before = pa.total_allocated_bytes()
    for turn in range(10):
        offsets = range(turn * 100, turn * 100 + 100)
        rolling.write(rows_of(0, offsets, kind=kinds(*(f"k{offset % 100}" for offset in offsets))))
        assert sum(len(group.batches) for group in rolling._waiting.values()) < 150
        assert len(rolling._open) <= 3
    assert pa.total_allocated_bytes() - before < 2 << 20
    assert sum(file.rows for file in rolling.close()) == 1000


def test_small_batches_are_merged_before_files_become_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rolling = writer(tmp_path, column="kind")
    monkeypatch.setattr(rolling_writer, "_MAX_PENDING_BYTES", 20 * rolling._overhead_bytes)
    for offset in range(200):
        rolling.write(rows_of(0, [offset], kind=kinds(f"k{offset % 5}")))
        assert sum(len(group.batches) for group in rolling._waiting.values()) <= 20
    files = rolling.close()
    assert [(file.rows, pq.ParquetFile(tmp_path / "t" / file.path).num_row_groups) for file in files] == [(40, 1)] * 5


def test_giving_up_does_not_hide_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "GROUP_ROWS", 1)
    rolling = writer(tmp_path, target=1)
    rolling.write(rows_of(0, [1]))

    def refuse(_store: LakeStore, _paths: object) -> None:
        raise LakeError("not allowed")

    monkeypatch.setattr(LakeStore, "delete", refuse)
    rolling.give_up()
    assert list((tmp_path / "t").rglob("*.parquet"))


def test_what_is_given_up_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "GROUP_ROWS", 1)
    rolling = writer(tmp_path, target=1)
    rolling.write(rows_of(0, [1]))
    rolling.write(rows_of(0, [2]))
    assert list((tmp_path / "t").rglob("*.parquet"))
    rolling.give_up()
    assert list((tmp_path / "t").rglob("*.parquet")) == []
