"""The check of snapshots, leader epochs and partition.metadata."""

from __future__ import annotations

import uuid

from crabka.log.healing.small_files_check import check_small_files
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions
from crabka.testing import MemoryFileSystem
from tests.support.faults.rotting import flip
from tests.support.storage.aborting import SMALL_SEGMENTS, fill_with_transactions
from tests.support.storage.small import LOG_PATH, NOW_MS, make_context, open_test_log


def flushed() -> tuple[MemoryFileSystem, PartitionLog]:
    context = make_context()
    assert isinstance(context.fs, MemoryFileSystem)
    options = OpenOptions(clean=True, now_ms=NOW_MS, topic_id=uuid.UUID(int=7))
    log = open_test_log(context, SMALL_SEGMENTS, options)
    fill_with_transactions(log)
    log.flush()
    return context.fs, log


def test_whole_files_are_right() -> None:
    _, log = flushed()
    assert check_small_files(log.healing.begin_small_check()) == ("", "", {}, "")


def test_damage_is_named_and_written_anew() -> None:
    fs, log = flushed()
    offset = log.state.snapshots.offsets[1]
    before = log.state.snapshots.read(offset)
    flip(fs, f"{LOG_PATH}/leader-epoch-checkpoint", 4)
    flip(fs, f"{LOG_PATH}/partition.metadata", 25)
    flip(fs, log.state.snapshots.path(offset), 20)
    found = check_small_files(log.healing.begin_small_check())
    assert "leader-epoch-checkpoint" in found.epochs
    assert "partition.metadata" in found.metadata
    assert "checksum" in found.snapshots[offset]
    for job in log.healing.rewrite_small_files(found):
        job()
    log.flush()
    assert check_small_files(log.healing.begin_small_check()) == ("", "", {}, "")
    after = log.state.snapshots.read(offset)
    assert [(each.producer_id, each.txn_first_offset, each.last_sequence) for each in after] == [
        (each.producer_id, each.txn_first_offset, each.last_sequence) for each in before
    ]


def test_a_log_without_epochs_needs_no_checkpoint() -> None:
    log = open_test_log()
    assert check_small_files(log.healing.begin_small_check()) == ("", "", {}, "")
