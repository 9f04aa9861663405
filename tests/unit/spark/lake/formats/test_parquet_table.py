"""What only manifests do; the contract of tables is in test_table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats import parquet_table
from crabka.spark.lake.formats.manifests import FULL_EVERY, manifest_path
from crabka.spark.lake.formats.parquet_table import ParquetTable
from tests.support.spark.lake_reader import table_places
from tests.support.spark.lake_tables import lake_of, new_table, now_ms, written

DAY_MS = 86_400_000


def fresh(tmp_path: Path) -> ParquetTable:
    found = ParquetTable.open(lake_of(tmp_path, "parquet").store("orders"), now_ms)
    assert found is not None
    return found


def test_long_histories_are_read_from_the_last_whole_list(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    for number in range(FULL_EVERY + 5):
        table.commit(written(lake, table, 0, [number]), {0: number} if number else {}, {0: number + 1})
        table.refresh()
    directory = Path(lake.root) / "orders"
    for version in range(FULL_EVERY):
        (directory / manifest_path(version)).unlink()
    assert len(fresh(tmp_path).files()) == FULL_EVERY + 5
    assert table_places(Path(lake.root), "orders", "parquet") == [(0, number) for number in range(FULL_EVERY + 5)]


def test_a_vacuum_removes_manifests_that_nothing_needs(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    for number in range(FULL_EVERY + 3):
        table.commit([], {0: number} if number else {}, {0: number + 1})
        table.refresh()
    removed = table.vacuum(0, now_ms() + DAY_MS).removed
    assert set(removed) == {manifest_path(version) for version in range(FULL_EVERY)}
    assert fresh(tmp_path).committed_offsets() == {0: FULL_EVERY + 3}


def test_a_writer_that_slept_does_not_commit_into_the_past(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    sleeper = fresh(tmp_path)
    for number in range(FULL_EVERY + 3):
        table.commit([], {0: number} if number else {}, {0: number + 1})
        table.refresh()
    table.vacuum(0, now_ms() + DAY_MS)
    assert not (Path(lake.root) / "orders" / manifest_path(1)).exists()
    with pytest.raises(CommitConflictError):
        sleeper.commit(written(lake, sleeper, 0, [0]), {}, {0: 1})


def test_of_two_who_look_for_the_last_version_at_the_same_moment_one_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(tmp_path, "parquet")
    first, second = new_table(lake), fresh(tmp_path)
    first.commit(written(lake, first, 0, [0]), {}, {0: 1})
    monkeypatch.setattr(parquet_table, "_versions", lambda _store: [0])
    with pytest.raises(CommitConflictError):
        second.commit(written(lake, second, 0, [0]), {}, {0: 1})
    monkeypatch.undo()
    assert table_places(Path(lake.root), "orders", "parquet") == [(0, 0)]


def test_a_manifest_that_is_missing_is_reported(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    for number in range(2):
        table.commit([], {0: number} if number else {}, {0: number + 1})
        table.refresh()
    (Path(lake.root) / "orders" / manifest_path(1)).unlink()
    with pytest.raises(LakeError, match="version 1"):
        fresh(tmp_path)


def test_a_table_that_was_removed_meanwhile_is_reported(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    shutil.rmtree(lake.root)
    with pytest.raises(LakeError, match="removed meanwhile"):
        table.commit([], {}, {0: 1})
