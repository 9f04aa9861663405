from __future__ import annotations

import os
from pathlib import Path

import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.vacuuming import remove_unreferenced
from tests.support.tiers import object_stores as _started  # noqa: F401 - before any test takes stock of descriptors


def place(tmp_path: Path, name: str, modified_ms: int) -> None:
    path = tmp_path / "t" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"content")
    os.utime(path, (modified_ms / 1000, modified_ms / 1000))


def test_only_old_files_that_nothing_needs_are_removed(tmp_path: Path) -> None:
    for name in ("old.parquet", "d/old.parquet", "live.parquet", "meta/old.avro", "meta/live.avro", "notes.txt"):
        place(tmp_path, name, 1_000)
    place(tmp_path, "young.parquet", 5_000)
    store = LakeStore(str(tmp_path), "t")
    result = remove_unreferenced(
        store, {"meta/live.avro"}, 5_000, lambda path: path.startswith("meta/"), live={"live.parquet"}
    )
    assert sorted(result.removed) == ["d/old.parquet", "meta/old.avro", "old.parquet"]
    assert result.size_bytes == 21
    left = {found.key for found in store.list_files()}
    assert left == {"live.parquet", "meta/live.avro", "notes.txt", "young.parquet"}


def test_nothing_of_the_format_is_removed_unless_it_is_known(tmp_path: Path) -> None:
    for name in ("_delta_log/0.json", "_delta_log/0.checkpoint.parquet", "_kind=a/old.parquet", "_old.parquet"):
        place(tmp_path, name, 1_000)
    removed = remove_unreferenced(LakeStore(str(tmp_path), "t"), set(), 5_000, live=()).removed
    assert sorted(removed) == ["_kind=a/old.parquet", "_old.parquet"]


def test_nothing_is_removed_if_a_file_of_the_table_is_not_there(tmp_path: Path) -> None:
    place(tmp_path, "my%20file.parquet", 1_000)
    place(tmp_path, "old.parquet", 1_000)
    store = LakeStore(str(tmp_path), "t")
    with pytest.raises(LakeError, match=r"my file\.parquet, which is not there"):
        remove_unreferenced(store, set(), 5_000, live={"my file.parquet"})
    assert len(list(store.list_files())) == 2
