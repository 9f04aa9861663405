"""Healing of an open log: reads go around damage, indexes and epochs are rebuilt, batches are put back."""

from __future__ import annotations

import uuid

import pytest

from crabka.errors import OperationError
from crabka.formats.file_names import TXN_INDEX_SUFFIX
from crabka.formats.partition_metadata import encode_partition_metadata
from crabka.formats.transaction_index import note_of
from crabka.log.partition.healing import sync_files
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.segment.aborted_note import read_aborted_note
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import iter_headers
from crabka.testing import MemoryFileSystem
from crabka.vfs import read_file
from tests.support.faults.rotting import check_and_repair, flip
from tests.support.storage.aborting import SMALL_SEGMENTS, all_aborted, fill_with_transactions
from tests.support.storage.small import LOG_PATH, append, make_batch, make_context, open_test_log


def filled(*, rounds: int = 60) -> tuple[MemoryFileSystem, PartitionLog]:
    context = make_context()
    assert isinstance(context.fs, MemoryFileSystem)
    log = open_test_log(context, SMALL_SEGMENTS)
    fill_with_transactions(log, rounds=rounds)
    return context.fs, log


def readable(log: PartitionLog) -> set[int]:
    """Read the log offset by offset; return the offsets of whole batches that came, none of them damaged."""
    found: set[int] = set()
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            data = log.read(offset, max_bytes=1 << 20).read()
        except OperationError as error:
            if error.error_code is not ErrorCode.corrupt_message:
                raise
            continue
        first = next(iter(iter_headers(memoryview(data))))[1]
        assert first.base_offset <= offset <= first.last_offset
        for _, header in iter_headers(memoryview(data)):
            found |= set(range(header.base_offset, header.next_offset))
    return found


@pytest.mark.parametrize("at", ["first", "middle", "last", "active"])
@pytest.mark.parametrize("byte", [3, 10, 16, 70])
def test_everything_but_the_damaged_batch_is_read(at: str, byte: int) -> None:
    fs, log = filled()
    bases = log.segment_base_offsets
    segment = log.healing.segment_of(bases[-1] if at == "active" else bases[1])
    headers = list(segment.headers())
    position, header = headers[{"first": 0, "middle": len(headers) // 2, "last": -1, "active": 0}[at]]
    flip(fs, segment.log_path, position + byte)
    check_and_repair(log, segment.base_offset)
    assert log.healing.is_damaged
    lost = set(range(header.base_offset, header.next_offset))
    assert readable(log) == set(range(log.log_end_offset)) - lost
    with pytest.raises(OperationError, match="are damaged on this replica"):
        log.read(header.base_offset, max_bytes=1000)


def test_batches_are_put_back_where_they_were() -> None:
    fs, log = filled()
    base = log.segment_base_offsets[1]
    segment = log.healing.segment_of(base)
    good = fs.open(segment.log_path).pread(segment.size, 0)
    flip(fs, segment.log_path, 300)
    check_and_repair(log, base)
    (damaged,) = log.healing.damage
    target = log.healing.begin_check(base)
    assert target is not None
    assert not log.healing.patch(target, damaged, b"too short")
    assert log.healing.patch(target, damaged, good[damaged.position : damaged.end_position])
    sync_files(fs, [segment.log_path])
    assert check_and_repair(log, base).done == []
    assert not log.healing.is_damaged
    assert readable(log) == set(range(log.log_end_offset))


def test_a_log_that_was_cut_meanwhile_is_not_patched() -> None:
    fs, log = filled()
    base = log.segment_base_offsets[-1]
    flip(fs, log.healing.segment_of(base).log_path, 70)
    check_and_repair(log, base)
    (damaged,) = log.healing.damage
    target = log.healing.begin_check(base)
    assert target is not None
    log.truncation.truncate_to(base)
    assert not log.healing.is_damaged
    append(log, make_batch())
    assert not log.healing.patch(target, damaged, bytes(damaged.end_position - damaged.position))


def test_indexes_are_rebuilt_while_the_log_is_open() -> None:
    fs, log = filled()
    segment = next(each for each in log.state.segments if each.aborted())
    expected = all_aborted(log)
    for suffix in (".index", ".timeindex", ".txnindex"):
        flip(fs, segment.stem + suffix, 3)
    segment.aborts.forget()
    segment.forget_cached()
    done = check_and_repair(log, segment.base_offset).done
    assert len(done) == 2
    assert all_aborted(log) == expected
    assert check_and_repair(log, segment.base_offset).done == []
    assert readable(log) == set(range(log.log_end_offset))


def test_leader_epochs_follow_the_batches() -> None:
    log = open_test_log(config=SMALL_SEGMENTS)
    for epoch in (0, 0, 2, 5, 5, 7):
        append(log, make_batch(2), leader_epoch=epoch)
    right = log.leader_epochs.entries
    log.state.leader_epochs = LeaderEpochCache([(0, 0), (2, 4), (6, 6), (7, 10)])
    assert "known as 6, and is 5" in check_and_repair(log, 0).done[0]
    assert log.leader_epochs.entries == right
    assert log.leader_epochs.dirty


def with_metadata(content: bytes) -> tuple[MemoryFileSystem, PartitionLog]:
    fs = MemoryFileSystem()
    fs.makedirs(LOG_PATH)
    fs.open(f"{LOG_PATH}/partition.metadata", create=True).pwritev([content], 0)
    return fs, open_test_log(make_context(fs))


TOPIC_ID = uuid.UUID("aa2db2b4-a8b9-4f3c-a4be-9e8c11c5e0d1")
RIGHT = encode_partition_metadata(TOPIC_ID)


@pytest.mark.parametrize("position", range(len(RIGHT)))
def test_a_damaged_topic_id_is_known_by_what_is_left_of_it(position: int) -> None:
    content = bytearray(RIGHT)
    content[position] ^= 1
    fs, log = with_metadata(bytes(content))
    assert log.topic_id != TOPIC_ID or position < 11
    assert log.healing.adopt(TOPIC_ID)
    assert log.topic_id == TOPIC_ID
    assert position < 11 or read_file(fs, f"{LOG_PATH}/partition.metadata") == RIGHT


def test_a_log_of_another_topic_is_not_adopted() -> None:
    _, log = with_metadata(encode_partition_metadata(uuid.UUID(int=5)))
    assert not log.healing.adopt(TOPIC_ID)
    _, log = with_metadata(b"something else")
    assert not log.healing.adopt(TOPIC_ID)


def test_a_log_without_metadata_is_adopted() -> None:
    log = open_test_log()
    assert log.healing.adopt(TOPIC_ID)


def test_a_repaired_transaction_index_is_noted_as_it_is_now() -> None:
    fs, log = filled()
    segment = log.healing.segment_of(log.segment_base_offsets[1])
    path = segment.stem + TXN_INDEX_SUFFIX
    good = read_file(fs, path)
    flip(fs, path, 31)
    # As after a crash: the file is read without a note of it, and noted then.
    segment.aborts.expect(None)
    segment.forget_cached()
    segment.aborts.forget()
    assert segment.aborted()
    log.state.write_aborted_note()
    assert read_aborted_note(fs, log.path)[segment.base_offset] != note_of(good)
    assert check_and_repair(log, segment.base_offset).done
    assert read_file(fs, path) == good
    assert read_aborted_note(fs, log.path)[segment.base_offset] == note_of(good)
    assert check_and_repair(log, segment.base_offset).done == []
