from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.local_disk import create_file, reporting_disk_errors, sync_file
from tests.support.storage.synced_files import SyncedFiles


def test_a_file_is_made_once(tmp_path: Path) -> None:
    directory = str(tmp_path / "table")
    assert create_file(directory, "_crabka/1.json", b"first")
    assert not create_file(directory, "_crabka/1.json", b"second")
    assert [path.name for path in tmp_path.rglob("*.json*")] == ["1.json"]
    assert (tmp_path / "table" / "_crabka" / "1.json").read_bytes() == b"first"


def test_one_of_many_makes_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: create_file(str(tmp_path), "a", b"%d" % number), range(32)))
    assert won.count(True) == 1
    assert (tmp_path / "a").read_bytes() == b"%d" % won.index(True)
    assert os.listdir(tmp_path) == ["a"]


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        create_file(str(tmp_path), "a", b"data")
    assert os.listdir(tmp_path) == []


def test_trouble_is_reported_in_the_words_of_the_system() -> None:
    # Arrow has words of its own, which name no file.
    with pytest.raises(LakeError, match=r"^The file f cannot be written: No space left on device$"):  # noqa: SIM117
        with reporting_disk_errors("The file f cannot be written"):
            raise OSError(28, "Error writing bytes to file")
    with (
        pytest.raises(LakeError, match=r"^The file f cannot be written: odd$"),
        reporting_disk_errors("The file f cannot be written"),
    ):
        raise OSError("odd")


def test_content_comes_before_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = SyncedFiles(monkeypatch)
    directory = tmp_path / "table"
    create_file(str(directory), "_crabka/1.json", b"x")
    content, *names = synced.paths
    assert content.startswith(str(directory / "_crabka" / "1.json."))
    assert names == [str(directory / "_crabka"), str(directory), str(tmp_path)]


def test_all_that_leads_to_a_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = SyncedFiles(monkeypatch)
    directory = tmp_path / "table"
    (directory / "day=1").mkdir(parents=True)
    (directory / "day=1" / "f").write_bytes(b"rows")
    sync_file(str(directory), "day=1/f")
    assert synced.paths == [str(path) for path in (directory / "day=1" / "f", directory / "day=1", directory, tmp_path)]
