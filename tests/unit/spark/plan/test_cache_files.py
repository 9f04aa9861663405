from __future__ import annotations

from pathlib import Path

import pytest

from crabka.ids import ZERO_UUID
from crabka.remote.inmemory import PartitionDump
from crabka.remote_topic.snapshot import Snapshot
from crabka.spark.plan.cache_files import cache_directory, cache_path, dump_of, load_cache, store_cache
from tests.support.remote_segments import ORDERS, remote_segment

SNAPSHOT = Snapshot(
    topic_id=ZERO_UUID,
    partition_count=1,
    partition=0,
    next_offset=5,
    dump=dump_of(PartitionDump(topic_id_partition=ORDERS, segments=(remote_segment(0, 9),))),
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
    assert cache_directory().name.startswith("crabka-spark-")
