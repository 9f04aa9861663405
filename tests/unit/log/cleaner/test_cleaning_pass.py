"""What a pass keeps, batch by batch."""

from __future__ import annotations

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import CorruptDataError
from crabka.log.cleaner.cleaning_pass import RecordFilter, load_offsets
from crabka.log.cleaner.offset_map import SLOT_BYTES, OffsetMap
from crabka.log.partition.partition_log import AppendOrigin, PartitionLog
from crabka.records.builder import build_batch
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.record import Record, decode_records
from tests.support.storage.cleaning import clean
from tests.support.storage.small import NOW_MS, ProducerFields, make_context, open_test_log, read_batches, read_headers

COMPACT = TopicConfig(cleanup_policy=frozenset({"compact"}), delete_retention_ms=1000, file_delete_delay_ms=0)
Pair = tuple[bytes, bytes | None]


def put(log: PartitionLog, *pairs: Pair, producer: ProducerFields | None = None, transactional: bool = False) -> None:
    batch = build_batch(
        [Record(0, NOW_MS, key, value) for key, value in pairs],
        producer_id=producer.producer_id if producer else -1,
        producer_epoch=producer.epoch if producer else -1,
        base_sequence=producer.sequence if producer else -1,
        transactional=transactional,
    )
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    log.set_high_watermark(log.log_end_offset)


def end(log: PartitionLog, producer_id: int, *, committed: bool, epoch: int = 0) -> None:
    marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
    batch = build_end_transaction_batch(marker, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS)
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.set_high_watermark(log.log_end_offset)


def pairs_of(log: PartitionLog) -> list[Pair]:
    return [
        (record.key or b"", record.value)
        for header, batch in read_batches(log)
        if not header.is_control
        for record in decode_records(batch, header)
    ]


def test_only_the_newest_value_of_a_key_stays_with_its_offset() -> None:
    log = open_test_log(config=COMPACT)
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"b", b"2"))
    log.roll(NOW_MS)
    assert clean(log, now_ms=NOW_MS) == 4
    assert pairs_of(log) == [(b"a", b"2"), (b"b", b"2")]
    first = read_headers(log)[0]
    assert (first.base_offset, first.last_offset, first.records_count) == (0, 2, 1)


def test_a_tombstone_stays_until_its_horizon() -> None:
    log = open_test_log(config=COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"1"))
    log.roll(NOW_MS)
    for now_ms, wanted in ((NOW_MS, True), (NOW_MS + 999, True), (NOW_MS + 1000, False)):
        clean(log, now_ms=now_ms)
        assert ((b"a", None) in pairs_of(log)) is wanted
    assert pairs_of(log) == [(b"b", b"1")]


def test_a_batch_keeps_its_first_horizon() -> None:
    log = open_test_log(config=COMPACT)
    put(log, (b"a", None))
    log.roll(NOW_MS)
    clean(log, now_ms=NOW_MS)
    clean(log, now_ms=NOW_MS + 500)
    (header,) = read_headers(log)
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW_MS + 1000


def test_aborted_data_go_and_their_marker_follows_after_its_horizon() -> None:
    log = open_test_log(config=COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer=ProducerFields(7), transactional=True)
    end(log, 7, committed=False, epoch=1)
    put(log, (b"c", b"3"), producer=ProducerFields(7, 1), transactional=True)
    end(log, 7, committed=True, epoch=2)
    log.roll(NOW_MS)
    clean(log, now_ms=NOW_MS)
    assert pairs_of(log) == [(b"a", b"1"), (b"c", b"3")]
    assert [header.base_offset for header in read_headers(log)] == [0, 2, 3, 4]
    assert log.reads.aborted_transactions(0, 9)
    clean(log, now_ms=NOW_MS + 1)
    assert [header.has_delete_horizon for header in read_headers(log)] == [False, True, False, False]
    assert not log.reads.aborted_transactions(0, 9)
    clean(log, now_ms=NOW_MS + 1001)
    assert [header.base_offset for header in read_headers(log)] == [0, 3, 4]


def test_nothing_from_an_open_transaction_on_is_touched() -> None:
    log = open_test_log(config=COMPACT)
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    put(log, (b"a", b"2"), producer=ProducerFields(7), transactional=True)
    log.roll(NOW_MS)
    put(log, (b"a", b"3"))
    log.roll(NOW_MS)
    assert clean(log, now_ms=NOW_MS) == 1
    assert pairs_of(log) == [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")]


def test_the_last_batch_of_a_producer_stays_without_records() -> None:
    log = open_test_log(config=COMPACT)
    put(log, (b"a", b"1"), producer=ProducerFields(3, 0, 0))
    put(log, (b"a", b"2"), producer=ProducerFields(3, 0, 1))
    put(log, (b"a", b"3"))
    log.roll(NOW_MS)
    clean(log, now_ms=NOW_MS)
    assert [(header.base_offset, header.records_count) for header in read_headers(log)] == [(1, 0), (2, 1)]
    assert read_headers(log)[0].last_sequence == 1


def test_the_last_batch_of_the_round_stays_to_show_the_log_end() -> None:
    log = open_test_log(config=COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"b", b"1"), producer=ProducerFields(7), transactional=True)
    end(log, 7, committed=False)
    put(log, (b"b", b"2"), producer=ProducerFields(7, 0, 1), transactional=True)
    log.roll(NOW_MS)
    end(log, 7, committed=False)
    clean(log, now_ms=NOW_MS)
    assert read_headers(log)[-2].base_offset == 3
    assert pairs_of(log) == [(b"a", b"1")]


def test_a_full_map_ends_with_the_last_batch_that_fits() -> None:
    log = open_test_log(config=COMPACT)
    for key in (b"a", b"b", b"a", b"c", b"a"):
        put(log, (key, b"1"))
    log.roll(NOW_MS)
    view = log.cleaning.begin_pass(log.cleaning.survey(0, NOW_MS)(), NOW_MS)
    offsets = OffsetMap(2 * SLOT_BYTES, 1.0, 5)
    list(load_offsets(view, offsets))
    assert offsets.latest_offset == 2
    keep = RecordFilter(view, offsets)
    kept = [header.base_offset for header, batch in read_batches(log) if keep.apply(memoryview(batch), header)]
    assert kept == [1, 2, 3, 4]


def test_records_without_a_key_go() -> None:
    log = open_test_log()
    put(log, (b"a", b"1"))
    log.append_as_leader(build_batch([Record(0, NOW_MS, None, b"x")]), leader_epoch=0, now_ms=NOW_MS)
    put(log, (b"b", b"1"))
    log.roll(NOW_MS)
    clean(log, now_ms=NOW_MS)
    assert [key for key, _ in pairs_of(log)] == [b"a", b"b"]


def test_a_segment_that_cannot_be_read_to_its_end_is_not_cleaned() -> None:
    context = make_context()
    log = open_test_log(context, COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    file = context.fs.open(f"{log.path}/{0:020d}.log")
    file.pwritev([b"\xff"], file.size() - 1)
    with pytest.raises(CorruptDataError, match="no whole batch"):
        clean(log, now_ms=NOW_MS)
    assert len(read_headers(log)) == 2
