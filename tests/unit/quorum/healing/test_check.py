from __future__ import annotations

import pytest

from crabka.metadata.records import NoOpRecord, encode_record
from crabka.quorum.healing.check import MetadataCheck
from crabka.quorum.log.metadata_log import MetadataLog
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.snapshots.files import SnapshotContent, SnapshotId, write_snapshot
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.testing.memory_file_system import MemoryFileSystem
from tests.support.faults.rotting import flip

SNAPSHOT = SnapshotId(3, 1)
PATH = f"/m/{SNAPSHOT.file_name}"


def opened() -> tuple[MemoryFileSystem, MetadataLog]:
    """A log with two sealed segments and an active one of four batches each, and a snapshot."""
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    fs.fsync_dir("/")
    log = MetadataLog.open(fs, "/m", MetadataLogSettings(segment_bytes=300), start_offset=0, now_ms=1)
    for offset in range(12):
        record = Record(offset, 10, None, encode_record(NoOpRecord()))
        log.write([build_batch([record], base_offset=offset, leader_epoch=1 + offset // 4)], 1)
    write_snapshot(fs, PATH, SnapshotContent(()), epoch=1, now_ms=1)
    return fs, log


def run(log: MetadataLog) -> MetadataCheck:
    check = MetadataCheck(log.begin_check(), "/m")
    assert all(size > 0 for size in check.steps())
    return check


def test_a_whole_log_has_nothing_wrong() -> None:
    _, log = opened()
    check = run(log)
    assert (check.segments, check.snapshots, check.indexes) == ([], [], [])


@pytest.mark.parametrize("base", [0, 4, 8])
def test_every_flipped_byte_of_a_segment_is_found(base: int) -> None:
    fs, log = opened()
    path = f"/m/{base:020d}.log"
    for position in range(fs.stat(path).size_bytes):
        flip(fs, path, position, 1 << position % 8)
        (damaged,) = run(log).segments
        assert damaged.offset == base + position // (fs.stat(path).size_bytes // 4)
        assert (damaged.segment.base_offset, damaged.end_offset) == (base, base + 4)
        assert path in str(damaged)
        flip(fs, path, position, 1 << position % 8)


def test_a_damaged_snapshot_is_found() -> None:
    fs, log = opened()
    flip(fs, PATH, 80)
    (damaged,) = run(log).snapshots
    assert (damaged.snapshot_id, damaged.reason) == (SNAPSHOT, "wrong checksum at position 0")


def test_wrong_indexes_of_a_sealed_segment_are_found_and_replaced() -> None:
    fs, log = opened()
    flip(fs, "/m/00000000000000000004.timeindex", 3)
    (wrong,) = run(log).indexes
    assert wrong.segment.base_offset == 4
    (reason,) = log.replace_indexes([wrong])
    assert "00000000000000000004" in reason
    assert run(log).indexes == []


def test_what_was_removed_meanwhile_is_passed_over() -> None:
    fs, log = opened()
    check = MetadataCheck(log.begin_check(), "/m")
    log.delete_before(8)
    fs.unlink(PATH)
    assert list(check.steps())
    assert (check.segments, check.snapshots) == ([], [])


def test_a_cut_voids_what_a_check_finds() -> None:
    _, log = opened()
    check = MetadataCheck(log.begin_check(), "/m")
    log.truncate(10, 1)
    assert check.changes != log.changes
