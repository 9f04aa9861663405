"""Decoding of records: contents, timestamps, and every way a batch can be broken."""

from __future__ import annotations

import pytest

from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.errors import CorruptBatchError
from crabka.records.header import HEADER_SIZE, HEADER_STRUCT, parse_header, sealed
from crabka.records.record import Record, decode_records

RECORDS = [
    Record(40, 1_000, b"key", b"value", (("h", b"1"), ("h", None), ("é", b""))),
    Record(41, 900, None, None),
    Record(42, 5_000_000_000, b"", b""),
]


def batch_of(payload: bytes, count: int) -> bytes:
    header = bytearray(HEADER_SIZE)
    HEADER_STRUCT.pack_into(header, 0, 0, 0, -1, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    return sealed(header + payload)


@pytest.mark.parametrize("codec", range(5))
def test_records_come_back_as_they_were(codec: int) -> None:
    batch = build_batch(RECORDS, base_offset=40, codec=codec)
    assert decode_records(batch) == RECORDS
    assert decode_records(memoryview(batch + b"tail"), parse_header(batch)) == RECORDS


def test_log_append_time_gives_every_record_the_batch_time() -> None:
    batch = build_batch(RECORDS, timestamp_type=1, max_timestamp=77)
    assert {record.timestamp for record in decode_records(batch)} == {77}


def test_empty_batch_has_no_records() -> None:
    assert decode_records(build_batch([])) == []


def test_header_name_that_is_not_utf8_stays_readable() -> None:
    payload = bytes([18, 0, 0, 0, 1, 1, 2, 2, 0xFF, 1])
    assert decode_records(batch_of(payload, 1))[0].headers == (("�", None),)


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (bytes([12, 0, 0, 0, 1, 1, 0]), 2),
        (bytes([12, 0, 0, 0, 1, 1, 0]), -1),
        (bytes([14, 0, 0, 0, 1, 1, 0]), 1),
        (bytes([10, 0, 0, 0, 1, 1, 0]), 1),
        (bytes([12, 0, 0, 0, 1, 1, 0, 9]), 1),
        (bytes([12, 0, 0, 0, 8, 1, 0]), 1),
        (bytes([12, 0, 0, 0, 1, 1, 1]), 1),
        (bytes([12, 0, 0, 0, 1, 1, 60]), 1),
        (bytes([11, 0, 0, 0, 1, 1, 0]), 1),
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1),
        (bytes([12, 0, 0x80, 0x80, 0x80, 0x80, 0x80]), 1),
    ],
    ids=[
        "more-records-than-fit",
        "negative-count",
        "record-longer-than-batch",
        "record-longer-than-said",
        "bytes-after-the-last-record",
        "key-longer-than-record",
        "negative-header-count",
        "too-many-headers",
        "negative-length",
        "header-without-key",
        "endless-varint",
    ],
)
def test_broken_records_are_refused(payload: bytes, count: int) -> None:
    with pytest.raises(CorruptBatchError):
        decode_records(batch_of(payload, count))


def test_broken_record_has_kafkas_code() -> None:
    with pytest.raises(CorruptBatchError) as caught:
        decode_records(batch_of(bytes(7), 5))
    assert caught.value.error_code is ErrorCode.invalid_record


def test_cut_batch_is_refused() -> None:
    batch = build_batch(RECORDS)
    for size in (0, 10, HEADER_SIZE - 1, HEADER_SIZE, len(batch) - 1):
        with pytest.raises(CorruptBatchError):
            decode_records(batch[:size])


def test_other_magic_is_refused() -> None:
    batch = bytearray(build_batch(RECORDS))
    batch[16] = 1
    with pytest.raises(CorruptBatchError, match="magic 1"):
        decode_records(batch)


def test_decompression_is_bounded() -> None:
    batch = build_batch([Record(0, 0, None, bytes(100_000))], codec=4)
    with pytest.raises(CorruptBatchError, match="more than the allowed"):
        decode_records(batch, max_decompressed_bytes=1_000)
