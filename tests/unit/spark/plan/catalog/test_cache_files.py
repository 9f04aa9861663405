from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from crabka.ids import ZERO_UUID
from crabka.remote.inmemory import PartitionDump, RlmmCacheDump
from crabka.remote_topic.snapshot import Snapshot
from crabka.spark.plan.catalog.cache_files import (
    _own_directory,
    cache_directory,
    cache_path,
    load_cache,
    store_cache,
)
from tests.support.tiers.segment_metadata import ORDERS, remote_segment

SNAPSHOT = Snapshot(
    topic_id=ZERO_UUID,
    partition_count=1,
    partition=0,
    next_offset=5,
    dump=RlmmCacheDump((PartitionDump(topic_id_partition=ORDERS, segments=(remote_segment(0, 9),)),)),
)


def test_what_is_kept_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path))
    path = cache_path("listing", "s3://x")
    assert load_cache(path) is None
    store_cache(path, SNAPSHOT)
    assert load_cache(path) == SNAPSHOT
    assert list(path.parent.iterdir()) == [path]
    assert cache_path("listing", "s3://y") != path


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "x"
    store_cache(path, SNAPSHOT)
    path.write_bytes(path.read_bytes()[:-3] + b"abc")
    assert load_cache(path) is None


def test_a_place_that_cannot_be_written_to_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store_cache(tmp_path / "file" / "x", SNAPSHOT)
    assert load_cache(tmp_path / "file" / "x") is None


def test_without_a_home_files_are_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CRABKA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "crabka" / "spark"
    monkeypatch.setenv("XDG_CACHE_HOME", "nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = tmp_path / f"crabka-spark-{os.getuid()}"
    for _ in range(2):
        assert cache_directory() == directory
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.fixture
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CRABKA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _own_directory.cache_clear()
    yield
    _own_directory.cache_clear()


@pytest.mark.usefixtures("_temporary")
@pytest.mark.parametrize("whose", ["others can write", "others can read", "a link", "a file", "of another user"])
def test_a_temporary_directory_that_is_not_ours_alone_is_not_used(
    tmp_path: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = tmp_path / f"crabka-spark-{os.getuid()}"
    match whose:
        case "a link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            name.symlink_to(tmp_path / "elsewhere")
        case "a file":
            name.touch(mode=0o600)
        case "of another user":
            name.mkdir(mode=0o700)
            owner = name.stat().st_uid
            monkeypatch.setattr(os, "getuid", lambda: owner + 1)
            name.rename(tmp_path / f"crabka-spark-{owner + 1}")
        case _:
            name.mkdir()
            name.chmod(0o770 if "write" in whose else 0o755)
    used = cache_directory()
    assert used.parent == tmp_path
    assert used.name not in {f"crabka-spark-{os.getuid()}", "elsewhere"}
    assert stat.S_IMODE(used.stat().st_mode) == 0o700
    assert cache_directory() == used
