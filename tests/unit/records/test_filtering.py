"""Batches with records taken out."""

from __future__ import annotations

import pytest

from crabka.records.builder import build_batch
from crabka.records.errors import CorruptBatchError
from crabka.records.filtering import emptied_batch, filtered_batch, raw_records
from crabka.records.header import BatchHeader, crc_valid, parse_header
from crabka.records.record import Record, decode_records
from crabka.records.rewrite import with_log_append_time

RECORDS = [
    Record(100, 1000, b"a", b"1", (("h", b"x"),)),
    Record(101, 2000, None, b"2"),
    Record(102, 1500, b"c", None),
]


def parts(codec: int = 0) -> tuple[bytes, BatchHeader]:
    batch = build_batch(
        RECORDS, base_offset=100, codec=codec, producer_id=5, producer_epoch=2, base_sequence=7, leader_epoch=3
    )
    return batch, parse_header(batch)


@pytest.mark.parametrize("codec", range(5))
def test_kept_records_keep_offsets_timestamps_and_content(codec: int) -> None:
    batch, header = parts(codec)
    kept = filtered_batch(header, raw_records(batch, header)[1:], None)
    changed = parse_header(kept)
    assert crc_valid(kept, 0, changed)
    assert decode_records(kept) == RECORDS[1:]
    assert (changed.base_offset, changed.last_offset, changed.records_count) == (100, 102, 2)
    assert (changed.base_sequence, changed.last_sequence, changed.producer_id) == (7, 9, 5)
    assert (changed.base_timestamp, changed.max_timestamp, changed.codec) == (2000, 2000, codec)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch, header = parts()
    kept = filtered_batch(header, raw_records(batch, header), 9_000)
    changed = parse_header(kept)
    assert changed.has_delete_horizon
    assert changed.base_timestamp == 9_000
    assert decode_records(kept) == RECORDS


def test_log_append_time_stays() -> None:
    batch = with_log_append_time(parts()[0], 5_555)
    header = parse_header(batch)
    kept = filtered_batch(header, raw_records(batch, header)[:1], None)
    assert [record.timestamp for record in decode_records(kept)] == [5_555]
    assert parse_header(kept).max_timestamp == 5_555


@pytest.mark.parametrize("horizon_ms", [None, 9_000])
def test_times_beyond_64_bits_are_those_that_java_sees(horizon_ms: int | None) -> None:
    batch = build_batch([Record(0, 0, b"a", b"1"), Record(1, 5, b"b", b"2")], base_offset=0)
    latest = (1 << 63) - 1
    header = parse_header(batch)._replace(base_timestamp=latest, max_timestamp=latest)
    records = raw_records(batch, header)
    assert [record.timestamp for record in records] == [latest, -latest + 3]
    kept = filtered_batch(header, records[1:], horizon_ms)
    assert [record.timestamp for record in raw_records(kept, parse_header(kept))] == [-latest + 3]


def test_an_emptied_batch_reports_offsets_and_producer() -> None:
    _, header = parts(codec=1)
    empty = emptied_batch(header)
    changed = parse_header(empty)
    assert crc_valid(empty, 0, changed)
    assert decode_records(empty) == []
    assert (changed.last_offset, changed.last_sequence, changed.producer_epoch) == (102, 9, 2)
    assert (changed.base_timestamp, changed.max_timestamp, changed.codec) == (-1, 2000, 0)


def test_header_names_that_are_not_text_survive() -> None:
    batch = build_batch([Record(0, 1, b"k", b"v", (("name", b"x"),))]).replace(b"name", b"\xff\xfe\xfd\xfc")
    header = parse_header(batch)
    assert b"\xff\xfe\xfd\xfc" in filtered_batch(header, raw_records(batch, header), None)


def test_broken_records_are_refused() -> None:
    batch, header = parts()
    with pytest.raises(CorruptBatchError):
        raw_records(batch, header._replace(records_count=2))
    with pytest.raises(CorruptBatchError):
        raw_records(batch, header._replace(records_count=4))
    broken = bytearray(batch)
    broken[61] = 0x7E
    with pytest.raises(CorruptBatchError):
        raw_records(broken, header)
