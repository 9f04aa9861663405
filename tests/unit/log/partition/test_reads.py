from __future__ import annotations

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import OffsetInRemoteTierError, OperationError
from crabka.formats.leader_epochs import EpochEnd
from crabka.log.partition.partition_log import AppendOrigin, PartitionLog
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import iter_headers
from tests.support.storage.small import NOW_MS, ProducerFields, append, make_batch, open_test_log, read_headers
from tests.support.storage.tiered import drop_tiered, filled_log, tiered_config

SMALL = TopicConfig(internal_segment_bytes=600, index_interval_bytes=100)


def filled(count: int = 20) -> PartitionLog:
    log = open_test_log(config=SMALL)
    for index in range(count):
        append(log, make_batch(2, value_bytes=40, timestamp=NOW_MS + 10 * index))
    return log


def refused(log: PartitionLog, offset: int) -> ErrorCode:
    with pytest.raises(OperationError) as caught:
        log.read(offset, max_bytes=100)
    return caught.value.error_code


def test_a_log_is_read_over_all_segments() -> None:
    log = filled()
    assert len(log.segment_base_offsets) > 3
    for max_bytes in (1, 200, 1 << 20):
        assert [header.base_offset for header in read_headers(log, 0, max_bytes=max_bytes)] == list(range(0, 40, 2))
    assert read_headers(log, 13)[0].base_offset == 12


def test_offsets_outside_the_log_are_out_of_range() -> None:
    log = filled()
    log.retention.delete_records_before(5)
    assert refused(log, 4) is ErrorCode.offset_out_of_range
    assert refused(log, 41) is ErrorCode.offset_out_of_range
    assert log.read(40, max_bytes=100).length == 0


def test_a_consumer_at_the_tail_reads_from_the_remembered_position() -> None:
    log = filled(1)
    assert log.read(2, max_bytes=1000).read() == b""
    append(log, make_batch(3))
    plan = log.read(2, max_bytes=1000, upper_offset=log.high_watermark)
    data = plan.read_nowait()
    assert data is not None
    assert [header.base_offset for _, header in iter_headers(data)] == [2]
    append(log, make_batch(1))
    assert [header.base_offset for _, header in iter_headers(log.read(5, max_bytes=1000).read())] == [5]


def test_tail_positions_do_not_survive_a_roll() -> None:
    log = filled(1)
    log.read(2, max_bytes=1000)
    log.roll(NOW_MS)
    append(log, make_batch(1))
    assert read_headers(log, 2)[0].base_offset == 2


def test_reads_stop_at_the_upper_offset() -> None:
    log = filled()
    assert log.read(4, max_bytes=1000, upper_offset=4).read() == b""
    data = log.read(0, max_bytes=1 << 20, upper_offset=2).read()
    assert [header.base_offset for _, header in iter_headers(data)] == [0]


def test_aborted_transactions_are_returned_for_the_range_that_they_touch() -> None:
    log = open_test_log(config=SMALL)
    for round_ in range(3):
        for _ in range(4):
            entry = log.producer_state.entries.get(7)
            producer = ProducerFields(
                7, round_, entry.last_sequence + 1 if entry and entry.producer_epoch == round_ else 0
            )
            append(log, make_batch(1, value_bytes=80, producer=producer, transactional=True))
        marker = EndTransactionMarker(committed=round_ == 1, coordinator_epoch=0)
        batch = build_end_transaction_batch(marker, producer_id=7, producer_epoch=round_ + 1, timestamp=NOW_MS)
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
        log.set_high_watermark(log.log_end_offset)
    assert [tuple(each[1:3]) for each in log.reads.aborted_transactions(0, 15)] == [(0, 4), (10, 14)]
    assert [tuple(each[1:3]) for each in log.reads.aborted_transactions(5, 10)] == []
    assert [tuple(each[1:3]) for each in log.reads.aborted_transactions(3, 5)] == [(0, 4)]


def test_offsets_are_found_by_time_and_epoch() -> None:
    log = filled()
    append(log, make_batch(1, timestamp=NOW_MS), leader_epoch=4)
    found = log.reads.offset_for_timestamp(NOW_MS + 51)
    assert found is not None
    assert (found.timestamp, found.offset, found.leader_epoch) == (NOW_MS + 51, 11, 0)
    assert log.reads.offset_for_timestamp(NOW_MS + 10_000) is None
    largest = log.reads.max_timestamp_offset()
    assert largest is not None
    assert (largest.timestamp, largest.offset) == (NOW_MS + 191, 39)
    assert log.end_offset_for_epoch(0) == EpochEnd(0, 40)
    assert log.end_offset_for_epoch(4) == EpochEnd(4, 41)


def test_a_read_below_the_local_start_is_sent_to_the_tier() -> None:
    log = filled_log(tiered_config(local_retention_bytes=0))
    log.tiering.note_remote_offset(9)
    drop_tiered(log)
    log.retention.raise_log_start(3)
    assert (log.log_start_offset, log.local_log_start_offset) == (3, 8)
    for offset in (3, 7):
        with pytest.raises(OffsetInRemoteTierError) as caught:
            log.read(offset, max_bytes=1000, upper_offset=10)
        assert caught.value.error_code is ErrorCode.offset_moved_to_tiered_storage
        assert caught.value.local_log_start_offset == 8
    with pytest.raises(OperationError) as out_of_range:
        log.read(2, max_bytes=1000)
    assert out_of_range.value.error_code is ErrorCode.offset_out_of_range
    assert [header.base_offset for header in read_headers(log, 8)] == [8, 9]


def test_offsets_by_time_are_local() -> None:
    log = filled_log(tiered_config(local_retention_bytes=0))
    log.tiering.note_remote_offset(9)
    drop_tiered(log)
    found = log.reads.offset_for_timestamp(0)
    assert found is not None
    assert found.offset == 8
