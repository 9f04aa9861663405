from __future__ import annotations

import uuid

import pytest

from crabka.errors import ConfigError, StorageError
from crabka.formats.file_names import CLEANER_CHECKPOINT
from crabka.formats.meta_properties import MetaProperties
from crabka.ids import TopicPartition
from crabka.log.dirs.log_dir import CHECKPOINT_NAMES, CheckpointOffsets, LogDir
from crabka.log.dirs.meta_properties import write_meta_properties
from crabka.log.recovery.cuts import CutStats
from crabka.testing import MemoryFileSystem
from crabka.vfs import read_file, write_atomic

ORDERS = TopicPartition("orders", 0)
UNIQUE = "3f4cfdd4252e48728cfc2d34b44e0c4a"


def test_a_dir_has_one_owner() -> None:
    fs = MemoryFileSystem()
    log_dir = LogDir(fs, "/data")
    log_dir.open()
    with pytest.raises(ConfigError, match="locked by another process"):
        LogDir(fs, "/data").open()
    log_dir.close()
    log_dir.close()
    LogDir(fs, "/data").open()


def test_the_identity_is_read_with_the_lock() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    properties = MetaProperties("cluster", 1, uuid.UUID(int=3))
    write_meta_properties(fs, "/data", properties)
    log_dir = LogDir(fs, "/data")
    log_dir.open()
    assert log_dir.properties == properties


def opened(fs: MemoryFileSystem) -> LogDir:
    fs.makedirs("/data")
    write_meta_properties(fs, "/data", MetaProperties("cluster", 1, uuid.UUID(int=3)))
    log_dir = LogDir(fs, "/data")
    log_dir.open()
    log_dir.require_identity()
    return log_dir


def test_a_dir_that_is_removed_while_in_use_is_noticed() -> None:
    fs = MemoryFileSystem()
    log_dir = opened(fs)
    for name in fs.listdir("/data"):
        fs.unlink(f"/data/{name}")
    with pytest.raises(StorageError, match="log dir /data: the directory was removed, or its disk unmounted"):
        log_dir.require_identity()


def test_a_dir_whose_place_is_taken_is_noticed() -> None:
    fs = MemoryFileSystem()
    log_dir = opened(fs)
    write_meta_properties(fs, "/data", MetaProperties("cluster", 1, uuid.UUID(int=4)))
    with pytest.raises(StorageError, match="another directory took its place"):
        log_dir.require_identity()


def test_a_missing_or_damaged_file_alone_is_no_lost_dir() -> None:
    fs = MemoryFileSystem()
    log_dir = opened(fs)
    write_atomic(fs, "/data/meta.properties", b"rot")
    log_dir.require_identity()
    fs.unlink("/data/meta.properties")
    log_dir.require_identity()


def test_a_scan_sorts_what_lies_there() -> None:
    fs = MemoryFileSystem()
    for name in (
        "orders-0",
        f"orders-1.{UNIQUE}-delete",
        f"orders-2.{UNIQUE}-future",
        f"orders-3.{UNIQUE}-stray",
        "__cluster_metadata-0",
        "lost+found",
        "remote-log-index-cache",
    ):
        fs.makedirs(f"/data/{name}")
    fs.open("/data/file-0", create=True)
    content = LogDir(fs, "/data").scan()
    assert content.logs == {ORDERS: "/data/orders-0"}
    assert content.doomed == [f"/data/orders-1.{UNIQUE}-delete"]
    assert not content.clean


def test_the_mark_of_a_clean_stop_is_good_for_one_start() -> None:
    fs = MemoryFileSystem()
    log_dir = LogDir(fs, "/data")
    log_dir.open()
    log_dir.write_clean_shutdown(17)
    content = log_dir.scan()
    assert (content.clean, content.broker_epoch) == (True, 17)
    fs.crash()
    assert not log_dir.scan().clean


def test_checkpoints_round_trip_and_missing_offsets_leave_files_alone() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    log_dir = LogDir(fs, "/data")
    log_dir.write_checkpoints(CheckpointOffsets({ORDERS: 5}, {ORDERS: 6}, {ORDERS: 2}))
    log_dir.write_checkpoints(CheckpointOffsets(high_watermarks={ORDERS: 7}))
    content = log_dir.scan()
    assert (content.recovery_points, content.high_watermarks, content.log_starts) == (
        {ORDERS: 5},
        {ORDERS: 7},
        {ORDERS: 2},
    )


def test_a_damaged_checkpoint_counts_as_none() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    write_atomic(fs, "/data/recovery-point-offset-checkpoint", b"garbage")
    assert LogDir(fs, "/data").scan().recovery_points == {}


def test_an_older_choice_of_offsets_never_replaces_a_later_one() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    log_dir = LogDir(fs, "/data")
    older, later = log_dir.next_turn(), log_dir.next_turn()
    log_dir.write_checkpoints(CheckpointOffsets(high_watermarks={ORDERS: 2}), later)
    log_dir.write_checkpoints(CheckpointOffsets({ORDERS: 1}, {ORDERS: 1}), older)
    content = log_dir.scan()
    assert (content.recovery_points, content.high_watermarks) == ({ORDERS: 1}, {ORDERS: 2})


def test_checkpoints_may_list_logs_that_are_gone_until_they_are_written_without_them() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    log_dir = LogDir(fs, "/data")
    log_dir.write_checkpoints(CheckpointOffsets({ORDERS: 5}, {}, {}))
    assert not log_dir.may_list(ORDERS)
    log_dir.scan()
    assert log_dir.may_list(ORDERS)
    chosen_before = log_dir.next_turn()
    log_dir.note_gone(ORDERS)
    log_dir.forget_gone(chosen_before)
    assert log_dir.may_list(ORDERS)
    log_dir.forget_gone(log_dir.next_turn())
    assert not log_dir.may_list(ORDERS)


def test_checkpoints_keep_the_entries_of_logs_that_are_not_opened() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    log_dir = LogDir(fs, "/data")
    other = TopicPartition("other", 1)
    log_dir.write_checkpoints(CheckpointOffsets({ORDERS: 5, other: 1}, {ORDERS: 7}, {ORDERS: 2}))
    log_dir.keep({ORDERS}, log_dir.scan())
    log_dir.write_checkpoints(CheckpointOffsets({}, {other: 3}, {}))
    content = log_dir.scan()
    assert content.recovery_points == {ORDERS: 5}
    assert content.high_watermarks == {ORDERS: 7, other: 3}
    assert content.log_starts == {ORDERS: 2}


@pytest.mark.parametrize("name", [*CHECKPOINT_NAMES, CLEANER_CHECKPOINT])
def test_a_rotten_checkpoint_is_not_believed_and_is_counted(name: str, caplog: pytest.LogCaptureFixture) -> None:
    fs, cuts = MemoryFileSystem(), CutStats()
    fs.makedirs("/data")
    log_dir = LogDir(fs, "/data", cuts)
    log_dir.write_checkpoints(CheckpointOffsets({ORDERS: 5}, {ORDERS: 5}, {ORDERS: 5}))
    log_dir.write_cleaner_checkpoint({ORDERS: 5})
    written = read_file(fs, f"/data/{name}")
    assert written.endswith(b" 5\n")
    fs.rot(f"/data/{name}", len(written) - 2, 2)
    assert read_file(fs, f"/data/{name}").endswith(b" 7\n")
    content = log_dir.scan()
    assert content.recovery_points == content.high_watermarks == content.log_starts == {ORDERS: 5}
    assert log_dir.read_cleaner_checkpoint() == {ORDERS: 5}
    assert read_file(fs, f"/data/{name}") == written
    assert cuts.rebuilt_files == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"/data/{name}" in caplog.text


def test_the_files_of_a_dir_in_use_are_verified() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/data")
    write_meta_properties(fs, "/data", MetaProperties("cluster", 1, uuid.UUID(int=3)))
    log_dir = LogDir(fs, "/data")
    log_dir.open()
    log_dir.write_checkpoints(CheckpointOffsets({ORDERS: 5}, {ORDERS: 5}, {ORDERS: 5}))
    log_dir.write_cleaner_checkpoint({ORDERS: 5})
    assert log_dir.heal_files() == []
    names = [*CHECKPOINT_NAMES, CLEANER_CHECKPOINT, "meta.properties"]
    before = {name: read_file(fs, f"/data/{name}") for name in names}
    for name in names:
        fs.rot(f"/data/{name}", 5)
    assert [name for name, reason in zip(names, log_dir.heal_files(), strict=True) if name not in reason] == []
    assert {name: read_file(fs, f"/data/{name}") for name in names} == before
    fs.rot("/data/crabka-copy-of-meta.properties", 5)
    fs.rot("/data/meta.properties", 2)
    fs.rot(f"/data/crabka-copy-of-{CLEANER_CHECKPOINT}", 5)
    fs.rot(f"/data/{CLEANER_CHECKPOINT}", 0)  # replaced when the cleaner writes it next
    (reason,) = log_dir.heal_files()
    assert "restore it before the node stops" in reason
