from __future__ import annotations

import uuid

import pytest
from kio.schema.types import BrokerId
from kio.static.primitive import i16

from crabka.config.topic import TopicConfig
from crabka.errors import InvariantError, OperationError
from crabka.formats.offset_index import MAX_RELATIVE_OFFSET
from crabka.log.partition.append import PendingAppend, prepare_batch
from crabka.log.partition.partition_log import AppendOrigin, AppendResult, PartitionLog
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.control import (
    EndTransactionMarker,
    LeaderChangeMessage,
    build_control_batch,
    build_end_transaction_batch,
)
from crabka.records.header import crc_valid, parse_header
from crabka.records.record import Record
from tests.support.storage.small import (
    NOW_MS,
    ProducerFields,
    append,
    make_batch,
    make_context,
    open_test_log,
    read_batches,
    read_headers,
)


def test_offsets_and_epoch_are_patched_outside_the_checksum() -> None:
    log = open_test_log()
    append(log, make_batch(3))
    result = log.append_as_leader(memoryview(make_batch(2)), leader_epoch=7, now_ms=NOW_MS)
    assert result == AppendResult(3, 4, -1, 0, leader_epoch=7)
    header, batch = read_batches(log, 3)[0]
    assert (header.base_offset, header.partition_leader_epoch) == (3, 7)
    assert crc_valid(batch, 0, header)
    assert log.leader_epochs.entries == [(0, 0), (7, 3)]


def test_a_repeated_batch_answers_with_its_first_offsets() -> None:
    log = open_test_log()
    batch = make_batch(3, producer=ProducerFields(1))
    append(log, batch)
    append(log, make_batch(2, producer=ProducerFields(1, sequence=3)))
    result = log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert result == AppendResult(0, 2, -1, 0, leader_epoch=0, duplicate=True)
    assert log.log_end_offset == 5


def test_a_refused_batch_changes_nothing() -> None:
    log = open_test_log()
    append(log, make_batch(3, producer=ProducerFields(1)))
    with pytest.raises(OperationError) as caught:
        append(log, make_batch(1, producer=ProducerFields(1, sequence=9)))
    assert caught.value.error_code is ErrorCode.out_of_order_sequence_number
    assert log.log_end_offset == 3
    assert log.producer_state.entries[1].last_sequence == 2
    log.append_as_leader(
        make_batch(1, producer=ProducerFields(1, sequence=9)), leader_epoch=0, now_ms=NOW_MS, verify_sequence=False
    )
    assert log.log_end_offset == 4


def test_segments_roll_by_size() -> None:
    log = open_test_log(config=TopicConfig(internal_segment_bytes=len(make_batch()) * 2))
    for _ in range(5):
        append(log, make_batch())
    assert log.segment_base_offsets == [0, 2, 4]


def test_segments_roll_by_the_timestamps_of_batches() -> None:
    log = open_test_log(config=TopicConfig(segment_ms=1000))
    append(log, make_batch(timestamp=5000))
    append(log, make_batch(timestamp=6000))
    append(log, make_batch(timestamp=6001))
    assert log.segment_base_offsets == [0, 2]


def test_segments_roll_when_an_index_is_full() -> None:
    log = open_test_log(config=TopicConfig(index_interval_bytes=1, segment_index_bytes=36))
    for index in range(4):
        append(log, make_batch(timestamp=NOW_MS + index))
    assert log.segment_base_offsets == [0, 3]


def test_segments_roll_when_offsets_do_not_fit_the_index() -> None:
    log = open_test_log()
    log.copying.append_as_follower(make_batch(base_offset=0))
    log.copying.append_as_follower(make_batch(base_offset=MAX_RELATIVE_OFFSET))
    log.copying.append_as_follower(make_batch(base_offset=MAX_RELATIVE_OFFSET + 1))
    assert log.segment_base_offsets == [0, MAX_RELATIVE_OFFSET + 1]


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = open_test_log(config=TopicConfig(internal_segment_bytes=100))
    with pytest.raises(OperationError) as caught:
        append(log, make_batch(value_bytes=200))
    assert caught.value.error_code is ErrorCode.record_list_too_large


def test_log_append_time_is_set_and_returned_also_for_duplicates() -> None:
    log = open_test_log(config=TopicConfig(message_timestamp_type="LogAppendTime"))
    batch = make_batch(2, timestamp=5, producer=ProducerFields(1))
    first = log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    again = log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS + 9)
    assert (first.log_append_time_ms, again.log_append_time_ms) == (NOW_MS, NOW_MS)
    assert read_headers(log)[0].max_timestamp == NOW_MS


def test_a_batch_prepared_elsewhere_is_taken_as_it_is() -> None:
    config = TopicConfig(compression_type="gzip")
    log = open_test_log(config=config)
    batch = make_batch(2)
    prepared = prepare_batch(batch, parse_header(batch), config, NOW_MS)
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, prepared=prepared)
    assert read_headers(log)[0].codec == 1


def test_markers_of_old_epochs_are_refused() -> None:
    log = open_test_log()
    append(log, make_batch(producer=ProducerFields(1, epoch=5), transactional=True))
    marker = build_end_transaction_batch(
        EndTransactionMarker(committed=True, coordinator_epoch=0), producer_id=1, producer_epoch=4, timestamp=NOW_MS
    )
    with pytest.raises(OperationError) as caught:
        log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert caught.value.error_code is ErrorCode.invalid_producer_epoch


def test_markers_are_not_rewritten_by_topic_settings() -> None:
    log = open_test_log(config=TopicConfig(cleanup_policy=frozenset({"compact"}), compression_type="gzip"))
    append(log, make_batch(producer=ProducerFields(1), transactional=True))
    marker = build_end_transaction_batch(
        EndTransactionMarker(committed=True, coordinator_epoch=0), producer_id=1, producer_epoch=0, timestamp=NOW_MS
    )
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert read_headers(log)[1].codec == 0
    log.set_high_watermark(2)
    assert log.last_stable_offset == 2


def test_kraft_control_records_are_no_markers() -> None:
    log = open_test_log()
    message = LeaderChangeMessage(version=i16(1), leader_id=BrokerId(1), voters=(), granting_voters=())
    log.append_as_leader(build_control_batch([message], timestamp=NOW_MS), leader_epoch=3, now_ms=NOW_MS)
    assert log.log_end_offset == 1
    assert not log.producer_state.entries


def test_followers_keep_the_offsets_they_are_given() -> None:
    log = open_test_log()
    data = make_batch(2, base_offset=0, leader_epoch=1) + make_batch(3, base_offset=10, leader_epoch=2)
    log.copying.append_as_follower(data + make_batch(1, base_offset=13)[:-5])
    assert [header.base_offset for header in read_headers(log)] == [0, 10]
    assert log.log_end_offset == 13
    assert log.leader_epochs.entries == [(1, 0), (2, 10)]


@pytest.mark.parametrize("damage", ["checksum", "offset"])
def test_followers_refuse_damaged_and_overlapping_batches(damage: str) -> None:
    log = open_test_log()
    log.copying.append_as_follower(make_batch(2, base_offset=0))
    batch = bytearray(make_batch(2, base_offset=1 if damage == "offset" else 2))
    if damage == "checksum":
        batch[-1] ^= 1
    with pytest.raises(OperationError) as caught:
        log.copying.append_as_follower(bytes(batch))
    assert caught.value.error_code is ErrorCode.corrupt_message
    assert log.log_end_offset == 2


def test_flush_messages_makes_appends_durable() -> None:
    context = make_context()
    log = open_test_log(context, TopicConfig(flush_messages=2))
    for expected in (0, 2, 2, 4):
        append(log, build_batch([Record(0, NOW_MS, None, b"v")]))
        assert log.recovery_point == expected


def deferred(log: PartitionLog, batch: bytes, *, leader_epoch: int = 0) -> PendingAppend:
    pending = log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=NOW_MS, deferred=True)
    assert isinstance(pending, PendingAppend)
    return pending


def test_a_deferred_append_is_a_part_of_the_log_when_it_is_finished() -> None:
    log, plain = open_test_log(), open_test_log()
    for index in range(100):
        batch = make_batch(2, value_bytes=100, producer=ProducerFields(1, sequence=2 * index))
        pending = deferred(log, batch, leader_epoch=index // 40)
        pending.write()
        assert (log.log_end_offset, log.next_append_offset) == (2 * index, 2 * index + 2)
        assert len(read_batches(log)) == index
        result = log.finish_append(pending)
        assert result == plain.append_as_leader(batch, leader_epoch=index // 40, now_ms=NOW_MS)
    assert read_batches(log) == read_batches(plain)
    assert log.leader_epochs.entries == plain.leader_epochs.entries
    assert log.producer_state.entries.keys() == plain.producer_state.entries.keys()
    assert log.state.active.indexes().offsets.encode() == plain.state.active.indexes().offsets.encode()


def test_a_deferred_duplicate_is_answered_at_once() -> None:
    log = open_test_log()
    batch = make_batch(3, producer=ProducerFields(1))
    append(log, batch)
    result = log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, deferred=True)
    assert result == AppendResult(0, 2, -1, 0, leader_epoch=0, duplicate=True)
    assert log.next_append_offset == 3


def test_nothing_overtakes_a_deferred_append() -> None:
    log = open_test_log()
    pending = deferred(log, make_batch())
    with pytest.raises(InvariantError):
        append(log, make_batch())
    with pytest.raises(InvariantError):
        log.copying.append_as_follower(make_batch())
    log.abandon_append()
    assert append(log, make_batch()) == 0
    with pytest.raises(InvariantError):
        log.finish_append(pending)


@pytest.mark.parametrize("end", ["close", "delete"])
def test_a_log_that_is_gone_does_not_take_a_deferred_append(end: str) -> None:
    log = open_test_log()
    pending = deferred(log, make_batch())
    if end == "close":
        log.close(clean=False)
    else:
        log.moving.delete(uuid.UUID(int=1), NOW_MS)
    pending.write()
    with pytest.raises(OperationError) as caught:
        log.finish_append(pending)
    assert caught.value.error_code is ErrorCode.not_leader_or_follower
    assert log.log_end_offset == 0
