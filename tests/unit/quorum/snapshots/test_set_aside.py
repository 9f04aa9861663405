from __future__ import annotations

import pytest

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.quorum.snapshots.files import SnapshotContent, SnapshotId, list_snapshots, write_snapshot
from crabka.quorum.snapshots.set_aside import DAMAGED_SUFFIX, MAX_KEPT, damaged_snapshot, set_aside
from crabka.testing.memory_file_system import MemoryFileSystem
from tests.support.faults.rotting import flip
from tests.support.quorum.node import VOTER


def disk(*offsets: int) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    fs.fsync_dir("/")
    for offset in offsets:
        path = f"/m/{SnapshotId(offset, 2).file_name}"
        write_snapshot(fs, path, SnapshotContent((), 7, 1, (VOTER,)), epoch=2, now_ms=1)
    return fs


def path_of(offset: int) -> str:
    return f"/m/{SnapshotId(offset, 2).file_name}"


def test_what_is_left_of_a_damaged_snapshot_is_described() -> None:
    fs = disk(5)
    found = damaged_snapshot(fs, path_of(5), SnapshotId(5, 2), "wrong")
    assert found.head is not None
    assert (found.end, found.head.voters, found.head.kraft_version) == (OffsetAndEpoch(5, 2), (VOTER,), 1)
    assert str(found) == f"{path_of(5)}: wrong"
    flip(fs, path_of(5), 70)
    assert damaged_snapshot(fs, path_of(5), SnapshotId(5, 2), "wrong").head is None


def test_damaged_snapshots_are_renamed_durably_with_one_warning_each(caplog: pytest.LogCaptureFixture) -> None:
    fs = disk(5, 9)
    set_aside(fs, "/m", [damaged_snapshot(fs, path_of(9), SnapshotId(9, 2), "wrong checksum")])
    fs.crash()
    assert list_snapshots(fs, "/m") == [SnapshotId(5, 2)]
    assert fs.exists(path_of(9) + DAMAGED_SUFFIX)
    (record,) = caplog.records
    assert (record.levelname, path_of(9) in record.message, "wrong checksum" in record.message) == (
        "WARNING",
        True,
        True,
    )


def test_only_some_of_them_are_kept() -> None:
    offsets = range(1, MAX_KEPT + 3)
    fs = disk(*offsets)
    for offset in offsets:
        set_aside(fs, "/m", [damaged_snapshot(fs, path_of(offset), SnapshotId(offset, 2), "wrong")])
    kept = [f"{SnapshotId(offset, 2).file_name}{DAMAGED_SUFFIX}" for offset in offsets[-MAX_KEPT:]]
    assert sorted(fs.listdir("/m")) == kept


def test_nothing_to_set_aside_touches_nothing() -> None:
    fs = disk(5)
    set_aside(fs, "/m", [])
    assert list_snapshots(fs, "/m") == [SnapshotId(5, 2)]
