"""The check of one segment: nothing is found in a whole one, and what is damaged is named."""

from __future__ import annotations

import pytest

from crabka.log.healing.segment_check import SegmentCheck
from crabka.log.partition.partition_log import PartitionLog
from crabka.testing import MemoryFileSystem
from tests.support.faults.rotting import check, flip
from tests.support.storage.aborting import SMALL_SEGMENTS, fill_with_transactions
from tests.support.storage.small import make_context, open_test_log


def filled() -> tuple[MemoryFileSystem, PartitionLog]:
    context = make_context()
    assert isinstance(context.fs, MemoryFileSystem)
    log = open_test_log(context, SMALL_SEGMENTS)
    fill_with_transactions(log)
    return context.fs, log


def test_nothing_is_found_in_a_whole_log() -> None:
    _, log = filled()
    for base in log.segment_base_offsets:
        found = check(log, base)
        assert (found.damaged, found.indexes, found.aborted_reason) == ([], None, "")
        assert found.aborted == log.healing.segment_of(base).aborted()
        assert found.epochs == [(0, base)]


def test_nothing_is_found_without_snapshots_either() -> None:
    _, log = filled()
    for offset in log.state.snapshots.offsets:
        log.state.snapshots.remove(offset)
    for base in log.segment_base_offsets:
        assert check(log, base).aborted == log.healing.segment_of(base).aborted()


def test_a_damaged_batch_is_named_and_hides_what_is_known_of_transactions() -> None:
    fs, log = filled()
    flip(fs, log.healing.segment_of(0).log_path, 200)
    found = check(log, 0)
    assert len(found.damaged) == 1
    assert "CRC" in found.damaged[0].reason
    assert found.aborted is None
    following = check(log, log.segment_base_offsets[1])
    assert not following.damaged
    assert following.aborted is not None, "the snapshot has the producers"


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_every_flipped_byte_of_an_index_is_found(suffix: str) -> None:
    fs, log = filled()
    segment = log.healing.segment_of(0)
    path = segment.stem + suffix
    missed = []
    for position in range(fs.stat(path).size_bytes):
        flip(fs, path, position, 0x10)
        if check(log, 0).indexes is None:
            missed.append(position)
        flip(fs, path, position, 0x10)
    assert not missed
    assert check(log, 0).indexes is None


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_found(suffix: str) -> None:
    fs, log = filled()
    fs.unlink(log.healing.segment_of(0).stem + suffix)
    found = check(log, 0)
    assert found.indexes is not None
    assert "missing" in found.indexes_reason


def test_a_lost_transaction_index_is_found_without_a_note() -> None:
    fs, log = filled()
    segment = next(each for each in log.state.segments if each.aborted())
    fs.unlink(segment.stem + ".txnindex")
    segment.aborts.expect(None)
    assert "0 aborted transactions" in check(log, segment.base_offset).aborted_reason


def test_the_work_comes_in_steps_that_yield_their_bytes() -> None:
    _, log = filled()
    target = log.healing.begin_check(0)
    assert target is not None
    assert sum(SegmentCheck(target).steps()) == target.size
