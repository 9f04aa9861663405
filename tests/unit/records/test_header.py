"""The batch header: layout, properties, checksums, walking."""

from __future__ import annotations

import struct

import pytest

from crabka.records.builder import build_batch
from crabka.records.header import (
    HEADER_SIZE,
    MAX_SEQUENCE,
    BatchHeader,
    add_sequence,
    crc_valid,
    iter_headers,
    parse_header,
    patched_prefix,
)
from crabka.records.record import Record

RECORDS = [Record(0, 1_000, b"k", b"v"), Record(1, 3_000, None, b"w"), Record(2, 2_000, b"k", None)]


def header_with(**changes: int) -> BatchHeader:
    return parse_header(build_batch(RECORDS))._replace(**changes)


def test_header_fields_are_read_in_wire_order() -> None:
    batch = build_batch(
        RECORDS, base_offset=70, leader_epoch=3, producer_id=9, producer_epoch=2, base_sequence=5, transactional=True
    )
    header = parse_header(b"xx" + batch, 2)
    assert header.base_offset == 70
    assert header.size_in_bytes == len(batch)
    assert header.partition_leader_epoch == 3
    assert header.magic == 2
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 3_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 5)
    assert (header.last_offset, header.next_offset, header.last_sequence) == (72, 73, 7)
    assert header.records_count == 3
    assert header.has_producer_id


@pytest.mark.parametrize(
    ("attributes", "name", "value"),
    [
        (0x03, "codec", 3),
        (0x08, "timestamp_type", 1),
        (0x10, "is_transactional", True),
        (0x20, "is_control", True),
        (0x40, "has_delete_horizon", True),
    ],
)
def test_each_attribute_bit_has_its_property(attributes: int, name: str, value: object) -> None:
    assert getattr(header_with(attributes=attributes), name) == value
    assert not getattr(header_with(attributes=0x7F & ~attributes & ~(0x07 if attributes < 8 else 0)), name)


def test_last_sequence_wraps_to_zero() -> None:
    assert header_with(base_sequence=MAX_SEQUENCE - 1, last_offset_delta=2).last_sequence == 0
    assert add_sequence(MAX_SEQUENCE, 1) == 0


def test_batch_without_sequence_has_no_last_sequence() -> None:
    assert header_with().last_sequence == -1


def test_crc_covers_attributes_to_end_but_not_the_prefix() -> None:
    batch = build_batch(RECORDS)
    header = parse_header(batch)
    moved = patched_prefix(500, header.batch_length, 7) + batch[16:]
    assert crc_valid(moved, 0, parse_header(moved))
    assert parse_header(moved).base_offset == 500
    for position in range(21, len(batch)):
        broken = bytearray(batch)
        broken[position] ^= 1
        assert not crc_valid(broken, 0, parse_header(broken))


def test_walk_yields_only_complete_batches() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS, base_offset=3)
    both = first + second
    assert [position for position, _ in iter_headers(both)] == [0, len(first)]
    for cut in range(len(first), len(both)):
        assert [position for position, _ in iter_headers(both[:cut])] == [0]
    assert [position for position, _ in iter_headers(both, len(first))] == [len(first)]
    assert [position for position, _ in iter_headers(both, 0, len(both) - 1)] == [0]


@pytest.mark.parametrize("length", [0, -1, -(1 << 31), HEADER_SIZE - 13])
def test_walk_stops_at_a_length_that_holds_no_header(length: int) -> None:
    batch = bytearray(build_batch(RECORDS) * 2)
    struct.pack_into(">i", batch, 8, length)
    assert list(iter_headers(batch)) == []
