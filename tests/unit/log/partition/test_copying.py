from __future__ import annotations

import errno
import uuid

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import InvariantError, OperationError, StorageError
from crabka.formats.offset_index import MAX_RELATIVE_OFFSET
from crabka.log.partition.copying import PendingCopy
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.producers.producer_state import AppendOrigin
from crabka.log.recovery.recovery import OpenOptions
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import CRC_POSITION, sealed
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from tests.support.storage.small import (
    LOG_DIR,
    NOW_MS,
    ProducerFields,
    append,
    make_batch,
    make_context,
    open_test_log,
    read_batches,
)

SMALL = TopicConfig(internal_segment_bytes=1000, index_interval_bytes=200)


def leader_log(config: TopicConfig = SMALL) -> PartitionLog:
    """Return the log of a leader: two epochs, a producer, a transaction that ends, one that does not."""
    log = open_test_log(config=config)
    for index in range(20):
        append(log, make_batch(2, producer=ProducerFields(1, sequence=2 * index)), leader_epoch=index // 12)
    for producer_id in (7, 8):
        begun = make_batch(producer=ProducerFields(producer_id), transactional=True)
        log.append_as_leader(begun, leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    marker = EndTransactionMarker(committed=False, coordinator_epoch=3)
    batch = build_end_transaction_batch(marker, producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    log.append_as_leader(batch, leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.set_high_watermark(log.log_end_offset)
    return log


def content(log: PartitionLog) -> bytes:
    return b"".join(batch for _, batch in read_batches(log))


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_copy_is_all_that_the_leader_has(size: int) -> None:
    source, target = leader_log(), open_test_log(config=SMALL)
    batches = [batch for _, batch in read_batches(source)]
    for start in range(0, len(batches), size):
        data = b"".join(batches[start : start + size])
        assert target.copying.append_as_follower(data, now_ms=NOW_MS) == len(data)
    assert content(target) == content(source)
    assert target.log_end_offset == source.log_end_offset
    assert target.leader_epochs.entries == source.leader_epochs.entries
    assert target.segment_base_offsets == source.segment_base_offsets
    for mine, theirs in zip(target.state.segments, source.state.segments, strict=True):
        assert mine.indexes().offsets.encode() == theirs.indexes().offsets.encode()
        assert mine.indexes().times.encode() == theirs.indexes().times.encode()
    target.set_high_watermark(target.log_end_offset)
    assert target.last_stable_offset == source.last_stable_offset == 41
    assert target.reads.aborted_transactions(0, 100) == source.reads.aborted_transactions(0, 100) != []
    assert target.producer_state.entries.keys() == source.producer_state.entries.keys()
    assert [entry.batches for entry in target.producer_state.entries.values()] == [
        entry.batches for entry in source.producer_state.entries.values()
    ]


def test_batches_for_one_segment_are_one_write() -> None:
    inner = MemoryFileSystem()
    inner.makedirs(LOG_DIR)
    writes: list[str] = []
    fs = FaultyFileSystem(inner)
    target = open_test_log(make_context(fs))
    fs.add(FaultRule(operation="pwritev", before=lambda _operation, path: writes.append(path)))
    target.copying.append_as_follower(b"".join(make_batch(base_offset=offset) for offset in range(50)))
    assert len(writes) == 1


def test_nothing_is_written_of_an_answer_that_is_damaged() -> None:
    log = open_test_log()
    good = make_batch(2, base_offset=0)
    for position in (-1, CRC_POSITION):
        bad = bytearray(make_batch(2, base_offset=2))
        bad[position] ^= 1
        with pytest.raises(OperationError) as caught:
            log.copying.append_as_follower(good + bytes(bad))
        assert caught.value.error_code is ErrorCode.corrupt_message
        assert "batch at offset 2 of orders-0 is damaged: its checksum (CRC-32C) is 0x" in str(caught.value)
    assert log.log_end_offset == log.size_bytes == 0
    log.copying.append_as_follower(good)
    assert log.log_end_offset == 2


@pytest.mark.parametrize("position", [16, 23])
def test_batches_of_another_format_or_without_records_are_refused(position: int) -> None:
    """The magic number, and a last offset below the first one, with a checksum that fits."""
    batch = bytearray(make_batch(2))
    batch[position] = 1 if position == 16 else 0xFF
    with pytest.raises(OperationError):
        open_test_log().copying.append_as_follower(sealed(batch))


def test_what_a_newer_leader_wrote_is_left_out() -> None:
    """The answer was asked for in an epoch. What is beyond it may contradict what that epoch still has to bring."""
    log = open_test_log()
    data = make_batch(base_offset=0, leader_epoch=4) + make_batch(base_offset=1, leader_epoch=5)
    log.copying.append_as_follower(data, max_epoch=4)
    assert log.log_end_offset == 1


def test_a_first_batch_far_away_gets_a_segment_of_its_own() -> None:
    log = open_test_log()
    log.copying.append_as_follower(make_batch(base_offset=MAX_RELATIVE_OFFSET + 5))
    assert log.segment_base_offsets[-1] == MAX_RELATIVE_OFFSET + 5


def test_flush_messages_counts_what_is_copied() -> None:
    log = open_test_log(config=TopicConfig(flush_messages=2))
    log.copying.append_as_follower(make_batch(base_offset=0))
    assert log.recovery_point == 0
    log.copying.append_as_follower(make_batch(base_offset=1))
    assert log.recovery_point == 2


def test_a_write_that_fails_leaves_the_log_as_it_was() -> None:
    inner = MemoryFileSystem()
    inner.makedirs(LOG_DIR)
    fs = FaultyFileSystem(inner)
    log = open_test_log(make_context(fs))
    log.copying.append_as_follower(make_batch(base_offset=0))
    fs.add(FaultRule(operation="pwritev", path="*.log", error=errno.ENOSPC, keep_bytes=9, times=1))
    with pytest.raises(StorageError):
        log.copying.append_as_follower(make_batch(base_offset=1))
    assert log.log_end_offset == 1
    log.copying.append_as_follower(make_batch(base_offset=1))
    assert [header.base_offset for header, _ in read_batches(log)] == [0, 1]


def begun(log: PartitionLog, *batches: bytes) -> PendingCopy:
    return next(iter(log.copying.copies(b"".join(batches))))


def test_a_copy_in_steps_is_a_part_of_the_log_when_it_is_finished() -> None:
    log = open_test_log(config=SMALL)
    data = b"".join(make_batch(base_offset=offset, value_bytes=100) for offset in range(20))
    ends = []
    for pending in log.copying.copies(data, now_ms=NOW_MS):
        pending.write()
        ends.append((log.log_end_offset, log.next_append_offset))
        log.copying.finish_copy(pending)
        assert log.log_end_offset == pending.next_offset
    assert ends == [(0, 5), (5, 10), (10, 15), (15, 20)]
    assert content(log) == data


def test_a_leader_that_comes_before_the_write_is_done_loses_no_epoch() -> None:
    log = open_test_log()
    pending = begun(log, make_batch(2, base_offset=0, leader_epoch=3))
    log.leader_epochs.assign(6, log.next_append_offset)
    pending.write()
    log.copying.finish_copy(pending)
    assert log.leader_epochs.entries == [(3, 0), (6, 2)]


def test_nothing_overtakes_a_copy() -> None:
    log = open_test_log()
    pending = begun(log, make_batch(base_offset=0))
    with pytest.raises(InvariantError):
        append(log, make_batch())
    with pytest.raises(InvariantError):
        begun(log, make_batch())
    with pytest.raises(InvariantError):
        log.truncation.truncate_fully(0)
    log.abandon_append()
    with pytest.raises(InvariantError):
        log.copying.finish_copy(pending)
    assert append(log, make_batch()) == 0


@pytest.mark.parametrize("end", ["close", "delete"])
def test_a_log_that_is_gone_does_not_take_a_copy(end: str) -> None:
    log = open_test_log()
    pending = begun(log, make_batch(base_offset=0))
    if end == "close":
        log.close(clean=False)
    else:
        log.moving.delete(uuid.UUID(int=1), NOW_MS)
    pending.write()
    with pytest.raises(OperationError) as caught:
        log.copying.finish_copy(pending)
    assert caught.value.error_code is ErrorCode.not_leader_or_follower


def test_what_was_copied_is_there_after_a_clean_stop() -> None:
    context = make_context()
    source, target = leader_log(), open_test_log(context, SMALL)
    target.copying.append_as_follower(content(source), now_ms=NOW_MS)
    target.close(clean=True)
    again = open_test_log(context, SMALL, OpenOptions(clean=True, now_ms=NOW_MS, high_watermark=10))
    assert content(again) == content(source)
    assert again.leader_epochs.entries == source.leader_epochs.entries
    # Not the log end: only a leader knows what is committed.
    assert again.high_watermark == 10
