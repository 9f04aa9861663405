"""The compiled walks: what they note of sound data, and how they end on broken ones."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import pytest

from crabka.records import HEADER_SIZE, Record, build_batch, parse_header
from crabka.records.varint import encode_varint
from crabka.spark.decode import kernels as k
from tests.support.spark.decoded_rows import log_of

WANT_ALL = k.WANT_TIMES | k.WANT_KEYS | k.WANT_VALUES | k.WANT_HEADERS


def as_bytes(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def headers_of(data: bytes, lines: int = 10, position: int = 0) -> tuple[tuple[int, ...], npt.NDArray[np.int64]]:
    table = np.zeros((lines, k.HEADER_FIELDS), np.int64)
    result = tuple(map(int, k.walk_headers(as_bytes(data), position, table)))
    return result, table[: result[1]]


def test_headers_are_read_as_the_plain_parser_reads_them() -> None:
    data = build_batch(
        [Record(0, 5, b"k", b"v"), Record(0, 9, None, None)],
        base_offset=1 << 40,
        codec=3,
        producer_id=1 << 50,
        producer_epoch=7,
        base_sequence=1,
        transactional=True,
    )
    (end, count, broken), table = headers_of(data + data)
    assert (end, count, broken) == (2 * len(data), 2, 0)
    header = parse_header(data)
    assert table[1].tolist() == [
        len(data),
        header.size_in_bytes,
        header.base_offset,
        header.last_offset_delta,
        header.magic,
        header.crc,
        header.attributes,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.records_count,
    ]


def test_negative_numbers_of_headers_keep_their_sign() -> None:
    data = bytearray(build_batch([Record(0, -1, None, None)]))
    struct.pack_into(">q", data, 0, -5)
    _, table = headers_of(bytes(data))
    assert table[0, [k.BASE_OFFSET, k.BASE_TIMESTAMP, k.PRODUCER_ID]].tolist() == [-5, -1, -1]
    assert table[0, k.CRC] == parse_header(data).crc


def test_every_cut_leaves_whole_batches_only() -> None:
    data = log_of(3, 2)
    first = parse_header(data).size_in_bytes
    for end in range(len(data) + 1):
        expected = (len(data), 2, 0) if end == len(data) else (first, 1, 0) if end >= first else (0, 0, 0)
        assert headers_of(data[:end])[0] == expected


def test_a_full_table_shows_where_to_go_on() -> None:
    data = log_of(1, 1, 1)
    (position, count, _), _ = headers_of(data, lines=2)
    assert count == 2
    assert headers_of(data, lines=2, position=position)[0] == (len(data), 1, 0)


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_an_impossible_length_ends_the_walk(length: int) -> None:
    good = log_of(1)
    broken = bytearray(log_of(1))
    struct.pack_into(">i", broken, 8, length)
    assert headers_of(good + bytes(broken))[0] == (len(good), 1, 1)


def test_messages_of_the_old_format_are_found() -> None:
    old = struct.pack(">qiIbb", 5, 22, 0, 1, 0) + bytes(16)
    (end, count, broken), table = headers_of(old)
    assert (end, count, broken) == (len(old), 1, 0)
    assert table[0, [k.BASE_OFFSET, k.MAGIC]].tolist() == [5, 1]


def walk(
    payload: bytes,
    count: int,
    *,
    want: int = WANT_ALL,
    limits: tuple[int, int] = (0, 1 << 62),
    base_timestamp: int = 1_000,
    append_time: int = 0,
) -> tuple[tuple[int, ...], npt.NDArray[np.int64]]:
    """Walk one batch at offset 100 with 10 offsets whose records are at the end of a larger buffer."""
    before = b"\xff" * 3
    batch = np.array([[3, 3 + len(payload), 100, 9, count, base_timestamp, append_time, 0, 0]], np.int64)
    rows = np.full((k.ROW_FIELDS, max(count, 1)), -99, np.int64)
    numbers = np.array([*limits, want, 0, 0], np.int64)
    result = tuple(map(int, k.walk_records(as_bytes(before + payload), batch, numbers, rows)))
    return result, rows[:, : result[2]]


def record(*parts: bytes, length: int | None = None) -> bytes:
    body = b"\0" + b"".join(parts)
    return encode_varint(len(body) if length is None else length) + body


def plain(time_delta: int = 0, offset_delta: int = 0, key: bytes = b"k", value: bytes = b"v") -> bytes:
    return record(
        encode_varint(time_delta),
        encode_varint(offset_delta),
        encode_varint(len(key)) + key,
        encode_varint(len(value)) + value,
        encode_varint(0),
    )


def test_records_are_noted_where_they_lie() -> None:
    payload = plain(5, 2, b"key", b"value") + plain(-7, 9, b"", b"x" * 300)
    (code, _, count), rows = walk(payload, 2)
    assert (code, count) == (k.DONE, 2)
    assert rows[k.ROW_OFFSET].tolist() == [102, 109]
    assert rows[k.ROW_MICROS].tolist() == [1_005_000, 993_000]
    data = b"\xff" * 3 + payload
    for at, size, fields in (
        (k.ROW_KEY_AT, k.ROW_KEY_SIZE, [b"key", b""]),
        (k.ROW_VALUE_AT, k.ROW_VALUE_SIZE, [b"value", b"x" * 300]),
    ):
        found = [data[start : start + length] for start, length in zip(rows[at], rows[size], strict=True)]
        assert found == fields


def test_records_outside_the_limits_are_passed_over() -> None:
    payload = b"".join(plain(0, delta) for delta in range(10))
    _, rows = walk(payload, 10, limits=(103, 106))
    assert rows[k.ROW_OFFSET].tolist() == [103, 104, 105]


def test_log_append_time_is_that_of_the_batch() -> None:
    _, rows = walk(plain(5, 0) + plain(900, 1), 2, append_time=1)
    assert rows[k.ROW_MICROS].tolist() == [1_000_000, 1_000_000]


LONG_VARINT = b"\xff\xff\xff\xff\xff\x01"


@pytest.mark.parametrize(
    ("payload", "count", "code"),
    [
        (b"", 1, k.CUT_SHORT),
        (b"\xff", 1, k.CUT_SHORT),
        (LONG_VARINT, 1, k.CUT_SHORT),
        (record(length=-1), 1, k.TOO_LONG),
        (record(length=0), 1, k.TOO_LONG),
        (record(length=2), 1, k.TOO_LONG),
        (record(length=2**31 - 1), 1, k.TOO_LONG),
        (record(), 1, k.CUT_SHORT),
        (record(b"\xff" * 9 + b"\x02"), 1, k.CUT_SHORT),
        (record(encode_varint(0)), 1, k.CUT_SHORT),
        (record(encode_varint(0), LONG_VARINT), 1, k.CUT_SHORT),
        (plain(0, -1), 1, k.BAD_OFFSET),
        (plain(0, 10), 1, k.BAD_OFFSET),
        (plain(0, 0) + plain(0, -1), 2, k.BAD_OFFSET),
        (plain(0, 0) + plain(0, 0), 2, k.BAD_ORDER),
        (plain(0, 3) + plain(0, 4) + plain(0, 2), 3, k.BAD_ORDER),
        (record(encode_varint(0), encode_varint(0), encode_varint(1)), 1, k.BAD_FIELD),
        (record(encode_varint(0), encode_varint(0), encode_varint(2**31 - 1), b"x"), 1, k.BAD_FIELD),
        (record(encode_varint(0), encode_varint(0), encode_varint(-1)), 1, k.BAD_FIELD),
        (record(encode_varint(0), encode_varint(0), encode_varint(-1), encode_varint(3), b"x"), 1, k.BAD_FIELD),
        (plain() + b"\0", 1, k.LEFT_OVER),
        (plain(2**63 - 1), 1, k.BAD_TIME),
        (plain(2**60), 1, k.BAD_TIME),
        (plain(-(2**63)), 1, k.BAD_TIME),
    ],
)
def test_broken_records_end_the_walk(payload: bytes, count: int, code: int) -> None:
    (found, index, rows), _ = walk(payload, count)
    assert (found, index, rows) == (code, 0, 0)
    assert k.REASONS[found]


NULLS = encode_varint(0) + encode_varint(0) + encode_varint(-1) + encode_varint(-1)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (b"", k.BAD_HEADERS),
        (encode_varint(-1), k.BAD_HEADERS),
        (encode_varint(1), k.BAD_HEADERS),
        (encode_varint(2**31 - 1), k.BAD_HEADERS),
        (encode_varint(k.RECORD_HEADERS_MAX + 1), k.BAD_HEADERS),
        (encode_varint(k.RECORD_HEADERS_MAX + 1) + b"\0\1" * (k.RECORD_HEADERS_MAX + 1), k.MANY_HEADERS),
        (encode_varint(k.RECORD_HEADERS_MAX) + b"\0\1" * k.RECORD_HEADERS_MAX, k.DONE),
        (encode_varint(1) + encode_varint(-1) + encode_varint(-1), k.BAD_HEADERS),
        (encode_varint(1) + encode_varint(5) + b"x", k.BAD_HEADERS),
        (encode_varint(1) + encode_varint(1) + b"x" + encode_varint(1), k.BAD_HEADERS),
        (encode_varint(0) + b"\0", k.BAD_LENGTH),
        (encode_varint(1) + encode_varint(1) + b"x" + encode_varint(-5), k.DONE),
    ],
)
def test_broken_headers_end_the_walk_if_they_are_wanted(headers: bytes, code: int) -> None:
    payload = record(NULLS, headers)
    assert walk(payload, 1)[0][0] == code
    assert walk(payload, 1, want=k.WANT_VALUES)[0][0] == k.DONE


def test_what_is_not_wanted_is_not_looked_at() -> None:
    payload = record(encode_varint(2**62), encode_varint(3), b"\xff\xff\xff")
    (code, _, _), rows = walk(payload, 1, want=0)
    assert code == k.DONE
    assert rows[k.ROW_OFFSET].tolist() == [103]
    assert walk(payload, 1, want=k.WANT_TIMES)[0][0] == k.BAD_TIME
    key_only = record(encode_varint(0), encode_varint(0), encode_varint(1), b"k", b"\xff")
    assert walk(key_only, 1, want=k.WANT_KEYS)[0][0] == k.DONE


def batch_line(start: int, end: int, offset: int, count: int) -> list[int]:
    return [start, end, offset, count - 1, count, 5, 1, 0, 0]


def test_the_walk_goes_on_after_a_broken_batch() -> None:
    payload = plain() + b"\xff" + plain()
    size = len(plain())
    batches = np.array(
        [batch_line(0, size, 0, 1), batch_line(size, size + 1, 1, 1), batch_line(size + 1, 2 * size + 1, 2, 1)],
        np.int64,
    )
    rows = np.zeros((k.ROW_FIELDS, 3), np.int64)
    limits = np.array([0, 99, WANT_ALL, 0, 0], np.int64)
    assert k.walk_records(as_bytes(payload), batches, limits, rows) == (k.CUT_SHORT, 1, 1)
    limits[k.LIMIT_BATCH], limits[k.LIMIT_ROW] = 2, 1
    assert k.walk_records(as_bytes(payload), batches, limits, rows) == (k.DONE, 3, 2)
    assert rows[k.ROW_OFFSET, :2].tolist() == [0, 2]
    assert batches[:, k.BATCH_ROWS].tolist() == [1, 0, 1]


def test_batches_that_need_no_look_are_counted() -> None:
    batches = np.array([batch_line(-1, 0, 10, 5), batch_line(-1, 0, 20, 2)], np.int64)
    rows = np.zeros((k.ROW_FIELDS, 7), np.int64)
    limits = np.array([12, 21, k.WANT_TIMES, 0, 0], np.int64)
    assert k.walk_records(as_bytes(b""), batches, limits, rows) == (k.DONE, 2, 4)
    assert rows[k.ROW_OFFSET, :4].tolist() == [12, 13, 14, 20]
    assert rows[k.ROW_MICROS, :4].tolist() == [5_000] * 4


def test_neither_too_many_rows_nor_a_wrong_end_leave_the_memory() -> None:
    limits = np.array([0, 99, 0, 0, 0], np.int64)
    rows = np.zeros((k.ROW_FIELDS, 1), np.int64)
    two = as_bytes(plain() + plain())
    assert k.walk_records(two, np.array([batch_line(0, len(two), 0, 2)]), limits, rows)[0] == k.FULL
    assert k.walk_records(two, np.array([batch_line(-1, 0, 0, 2)]), limits, rows)[0] == k.NO_SPACE
    assert k.walk_records(two, np.array([batch_line(0, len(two) + 1, 0, 1)]), limits, rows)[0] == k.CUT_SHORT


def test_a_batch_with_more_records_than_rows_is_walked_in_parts() -> None:
    payload = as_bytes(b"".join(plain(delta, 2 * delta) for delta in range(5)))
    batch = np.array([[0, len(payload), 100, 8, 5, 1_000, 0, 0, 0]], np.int64)
    rows = np.zeros((k.ROW_FIELDS, 2), np.int64)
    limits = np.array([0, 99_999, WANT_ALL, 0, 0], np.int64)
    parts = []
    for expected in ((k.FULL, 0, 2), (k.FULL, 0, 2), (k.DONE, 1, 1)):
        assert k.walk_records(payload, batch, limits, rows) == expected
        parts.append(rows[k.ROW_OFFSET, : expected[2]].tolist())
    assert parts == [[100, 102], [104, 106], [108]]


def test_offsets_must_also_rise_from_part_to_part() -> None:
    payload = as_bytes(plain(0, 4) + plain(0, 4))
    batch = np.array([[0, len(payload), 100, 8, 2, 1_000, 0, 0, 0]], np.int64)
    rows = np.zeros((k.ROW_FIELDS, 1), np.int64)
    limits = np.array([0, 99_999, WANT_ALL, 0, 0], np.int64)
    assert k.walk_records(payload, batch, limits, rows) == (k.FULL, 0, 1)
    assert k.walk_records(payload, batch, limits, rows) == (k.BAD_ORDER, 0, 0)


def test_record_headers_are_found_again() -> None:
    data = encode_varint(1) + b"a" + encode_varint(-1) + encode_varint(0) + encode_varint(2) + b"bb"
    headers = np.zeros((k.HEADER_FIELDS_OF_RECORD, 2), np.int64)
    assert k.walk_record_headers(as_bytes(data), np.array([0, 0]), np.array([0, 2]), headers)
    assert headers.T.tolist() == [[1, 1, 3, -1], [4, 0, 5, 2]]


@pytest.mark.parametrize(("position", "count", "space"), [(0, 2, 1), (0, 1, 2), (-1, 1, 1), (100, 1, 1), (2, 1, 1)])
def test_record_headers_that_are_not_there_are_not_read(position: int, count: int, space: int) -> None:
    data = encode_varint(1) + b"a" + encode_varint(-1)
    headers = np.zeros((k.HEADER_FIELDS_OF_RECORD, space), np.int64)
    assert not k.walk_record_headers(as_bytes(data), np.array([position]), np.array([count]), headers)


def test_the_header_size_is_that_of_the_format() -> None:
    assert k.HEADER_SIZE == HEADER_SIZE
