"""The check of log directories from outside."""

from __future__ import annotations

from crabka.log.healing.offline_check import Problem, check_directory, log_directories
from crabka.log.partition.partition_log import PartitionLog
from crabka.testing import MemoryFileSystem
from tests.support.faults.rotting import flip
from tests.support.storage.aborting import SMALL_SEGMENTS, fill_with_transactions
from tests.support.storage.small import LOG_DIR, LOG_PATH, make_context, open_test_log


def stopped() -> tuple[MemoryFileSystem, PartitionLog]:
    context = make_context()
    assert isinstance(context.fs, MemoryFileSystem)
    log = open_test_log(context, SMALL_SEGMENTS)
    fill_with_transactions(log)
    log.close(clean=True)
    return context.fs, log


def found(fs: MemoryFileSystem) -> list[Problem]:
    return list(check_directory(fs, LOG_PATH))


def test_a_whole_log_has_no_problems() -> None:
    fs, _ = stopped()
    assert log_directories(fs, LOG_DIR) == ["orders-0"]
    assert found(fs) == []


def test_each_kind_of_damage_is_named_with_its_file() -> None:
    fs, log = stopped()
    base = log.segment_base_offsets[1]
    stem = log.healing.segment_of(base).stem
    flip(fs, f"{stem}.log", 100)
    flip(fs, f"{log.healing.segment_of(0).stem}.timeindex", 7)
    flip(fs, f"{LOG_PATH}/leader-epoch-checkpoint", 0, 0x40)
    snapshot = log.state.snapshots.path(log.state.snapshots.offsets[0])
    flip(fs, snapshot, 12)
    problems = {each.file: each for each in found(fs)}
    assert problems.keys() == {
        f"{stem}.log",
        f"{log.healing.segment_of(0).stem}.index",
        f"{LOG_PATH}/leader-epoch-checkpoint",
        snapshot,
    }
    data = problems[f"{stem}.log"]
    assert base <= data.offset < data.end_offset
    assert not data.is_at_end


def test_a_lost_transaction_index_is_named() -> None:
    fs, log = stopped()
    segment = next(each for each in log.state.segments if each.aborted())
    fs.unlink(f"{segment.stem}.txnindex")
    assert [each.file for each in found(fs)] == [f"{segment.stem}.txnindex"]


def test_the_end_of_the_last_segment_is_reported_apart() -> None:
    fs, log = stopped()
    file = fs.open(log.healing.segment_of(log.log_end_offset).log_path)
    file.truncate(file.size() - 1)
    assert [each.is_at_end for each in found(fs)] == [True]


def test_nothing_is_written() -> None:
    fs, log = stopped()
    flip(fs, f"{log.healing.segment_of(0).stem}.index", 3)
    before = {name: fs.stat(f"{LOG_PATH}/{name}").size_bytes for name in fs.listdir(LOG_PATH)}
    found(fs)
    assert {name: fs.stat(f"{LOG_PATH}/{name}").size_bytes for name in fs.listdir(LOG_PATH)} == before
