"""Transaction indexes that are damaged or lost: found at the start and while reading, rebuilt from the log."""

from __future__ import annotations

import pytest

from crabka.errors import OperationError
from crabka.formats.file_names import ABORTED_CHECKPOINT
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions
from crabka.log.segment.txn_rebuild import rebuild_aborted
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import MemoryFileSystem
from tests.support.storage.aborting import SMALL_SEGMENTS, all_aborted, end_transaction, fill_with_transactions
from tests.support.storage.small import (
    LOG_PATH,
    NOW_MS,
    ProducerFields,
    append,
    make_batch,
    make_context,
    open_test_log,
)

CLEAN = OpenOptions(clean=True, now_ms=NOW_MS)


def filled(seed: int = 1) -> tuple[MemoryFileSystem, PartitionLog]:
    context = make_context()
    fs = context.fs
    assert isinstance(fs, MemoryFileSystem)
    fs.fsync_dir("/")
    log = open_test_log(context, SMALL_SEGMENTS)
    fill_with_transactions(log, seed)
    return fs, log


def index_files(fs: MemoryFileSystem) -> list[str]:
    return [f"{LOG_PATH}/{name}" for name in sorted(fs.listdir(LOG_PATH)) if name.endswith(".txnindex")]


def damage(fs: MemoryFileSystem, path: str, kind: str) -> None:
    size = fs.stat(path).size_bytes
    if kind == "deleted":
        fs.unlink(path)
        return
    file = fs.open(path)
    match kind:
        case "empty":
            file.truncate(0)
        case "shorter":
            file.truncate(size - 34)
        case "cut":
            file.truncate(size - 5)
        case "garbage":
            file.pwritev([bytes(range(size % 251))], 0)
        case "flipped":
            # The producer id of the first entry: nothing in the file contradicts it.
            file.pwritev([bytes([file.pread(1, 9)[0] ^ 1])], 9)


KINDS = ("deleted", "empty", "shorter", "cut", "garbage", "flipped")


@pytest.mark.parametrize("seed", range(5))
def test_what_is_rebuilt_equals_what_was_written(seed: int) -> None:
    fs, log = filled(seed)
    segments = list(log.state.segments)
    for segment in segments:
        assert rebuild_aborted(fs, segments, log.state.snapshots, segment).entries == segment.aborted()
    assert len(segments) > 3


def test_rebuilding_does_without_snapshots() -> None:
    fs, log = filled()
    for offset in log.state.snapshots.offsets:
        log.state.snapshots.remove(offset)
    segments = list(log.state.segments)
    for segment in segments:
        assert rebuild_aborted(fs, segments, log.state.snapshots, segment).entries == segment.aborted()


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_index_is_rebuilt_after_a_clean_stop(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    fs, log = filled()
    expected = all_aborted(log)
    log.close(clean=True)
    for path in index_files(fs):
        damage(fs, path, kind)
    found = open_test_log(make_context(fs), SMALL_SEGMENTS, CLEAN)
    assert all_aborted(found) == expected
    assert caplog.text.count("rebuilt from the log") == len([each for each in found.state.segments if each.aborted()])


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_index_below_the_recovery_point_is_rebuilt_after_a_crash(kind: str) -> None:
    fs, log = filled()
    expected = all_aborted(log)
    log.flush()
    first = index_files(fs)[0]
    fs.crash()
    damage(fs, first, kind)
    options = OpenOptions(recovery_point=log.durability.checkpoint_recovery_point, now_ms=NOW_MS)
    assert all_aborted(open_test_log(make_context(fs), SMALL_SEGMENTS, options)) == expected


@pytest.mark.parametrize("kind", ["cut", "garbage", "flipped", "deleted"])
def test_a_damaged_index_that_a_reader_meets_is_an_error_of_the_partition_and_reported(kind: str) -> None:
    fs, log = filled()
    log.close(clean=True)
    context = make_context(fs)
    reported = []
    context.report_damage = lambda _log, base_offset, reason: reported.append((base_offset, reason))
    found = open_test_log(context, SMALL_SEGMENTS, CLEAN)
    base = int(index_files(fs)[0].rsplit("/", 1)[1].split(".")[0])
    damage(fs, index_files(fs)[0], kind)
    with pytest.raises(OperationError) as caught:
        all_aborted(found)
    assert caught.value.error_code is ErrorCode.kafka_storage_error
    assert reported[0][0] == base


def test_markers_are_appended_to_a_log_whose_active_index_was_damaged() -> None:
    fs, log = filled()
    end_transaction_of_new_producer(log)
    log.close(clean=True)
    expected = all_aborted(open_test_log(make_context(fs), SMALL_SEGMENTS, CLEAN))
    damage(fs, index_files(fs)[-1], "garbage")
    found = open_test_log(make_context(fs), SMALL_SEGMENTS, CLEAN)
    end_transaction_of_new_producer(found, 10)
    assert all_aborted(found)[:-1] == expected
    found.close(clean=True)
    assert all_aborted(open_test_log(make_context(fs), SMALL_SEGMENTS, CLEAN)) == all_aborted(found)


def end_transaction_of_new_producer(log: PartitionLog, producer_id: int = 9) -> None:
    append(log, make_batch(producer=ProducerFields(producer_id), transactional=True))
    end_transaction(log, producer_id, committed=False)


def test_without_a_note_what_can_be_decoded_is_believed() -> None:
    fs, log = filled()
    log.close(clean=True)
    fs.unlink(f"{LOG_PATH}/{ABORTED_CHECKPOINT}")
    damage(fs, index_files(fs)[0], "cut")
    found = open_test_log(make_context(fs), SMALL_SEGMENTS, CLEAN)
    assert all_aborted(found) == all_aborted(log)


def test_a_log_without_aborted_transactions_has_no_note() -> None:
    context = make_context()
    log = open_test_log(context, SMALL_SEGMENTS)
    for _ in range(40):
        append(log, make_batch())
    log.close(clean=True)
    assert ABORTED_CHECKPOINT not in context.fs.listdir(LOG_PATH)


def test_an_index_that_damaged_batches_hide_stays_wrong_until_they_are_repaired() -> None:
    fs, log = filled()
    log.close(clean=True)
    damage(fs, index_files(fs)[0], "deleted")
    base = index_files(fs)[0]
    first = next(segment for segment in log.state.segments if (segment.noted or (0,))[0])
    file = fs.open(first.log_path)
    good = file.pread(1, 70)
    file.pwritev([bytes([good[0] ^ 1])], 70)
    for _ in range(2):
        found = open_test_log(make_context(fs), SMALL_SEGMENTS, CLEAN)
        with pytest.raises(OperationError):
            all_aborted(found)
        found.close(clean=True)
    file.pwritev([good], 70)
    found = open_test_log(make_context(fs), SMALL_SEGMENTS, CLEAN)
    assert len(all_aborted(found)) > 0
    assert base
