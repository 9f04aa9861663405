from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from crabka.errors import CorruptDataError
from crabka.formats.transaction_index import AbortedTransaction, encode_aborted
from crabka.log.producers.producer_state import ProducerEntry
from crabka.log.producers.snapshots import encode_snapshot
from crabka.records.header import iter_headers
from crabka.spark.plan.index_files import (
    AbortedEntry,
    SegmentOffsets,
    aborted_entries,
    first_open_transaction,
    last_timestamp_ms,
    offset_after,
)
from tests.support.planted_tier import FIRST_TIMESTAMP_MS, batches, offset_index, time_index

LOG = batches(100, 8)  # eight batches of five records
POSITIONS = [position for position, _ in iter_headers(LOG)]


@pytest.mark.parametrize("padding", [b"", bytes(80)])
def test_bytes_of_any_offsets_hold_all_of_them(padding: bytes) -> None:
    index = SegmentOffsets(offset_index(LOG) + padding, 100, "x")
    for start in range(100, 141):
        for end in range(start, 141):
            first, last = index.start_byte(start), index.end_byte(end, len(LOG))
            held = [h for p, h in iter_headers(LOG) if first <= p < last]
            wanted = [h for _, h in iter_headers(LOG) if h.last_offset >= start and h.base_offset < end]
            assert first in POSITIONS
            assert last in (*POSITIONS, len(LOG))
            assert {h.base_offset for h in wanted} <= {h.base_offset for h in held} or start == end
    assert index.start_byte(125) > 0
    assert index.end_byte(110, len(LOG)) < len(LOG)


def test_an_empty_index_means_the_whole_segment() -> None:
    index = SegmentOffsets(b"", 100, "x")
    assert (index.start_byte(130), index.end_byte(101, 999)) == (0, 999)


def test_time_index_skips_only_what_is_older() -> None:
    data = time_index(LOG)
    for timestamp in range(FIRST_TIMESTAMP_MS + 95, FIRST_TIMESTAMP_MS + 145):
        start = offset_after(data, 100, timestamp * 1000, "x")
        first_match = max(timestamp - FIRST_TIMESTAMP_MS, 100)
        assert 100 <= start <= max(first_match, 140)
        if first_match < 140:
            assert start <= first_match
    assert offset_after(data, 100, (FIRST_TIMESTAMP_MS + 130) * 1000, "x") > 110
    assert last_timestamp_ms(data) == FIRST_TIMESTAMP_MS + 139
    assert last_timestamp_ms(b"") == -1


def test_aborted_transactions_are_read() -> None:
    data = encode_aborted([AbortedTransaction(7, 100, 110, 95)])
    assert aborted_entries(data, "x") == [AbortedEntry(7, 100, 110, 95)]


def test_the_oldest_open_transaction_is_found() -> None:
    entries = [ProducerEntry(number, 0) for number in range(3)]
    assert first_open_transaction(encode_snapshot(entries), "x") is None
    entries[1].txn_first_offset, entries[2].txn_first_offset = 50, 40
    assert first_open_transaction(encode_snapshot(entries), "x") == 40


@pytest.mark.parametrize(("entry", "byte"), [(1, 0), (1, 3), (2, 4), (0, 5)])
def test_an_offset_index_that_does_not_rise_is_refused(entry: int, byte: int) -> None:
    data = bytearray(offset_index(LOG))
    data[8 * entry + byte] ^= 0xF0
    with pytest.raises(CorruptDataError, match=r"^x: its entries do not rise"):
        SegmentOffsets(bytes(data), 100, "x")


@pytest.mark.parametrize("byte", [7, 10])
def test_a_time_index_that_does_not_rise_is_refused(byte: int) -> None:
    data = bytearray(time_index(LOG))
    data[12 + byte] ^= 0x80
    with pytest.raises(CorruptDataError, match=r"^x: its entries do not rise"):
        offset_after(bytes(data), 100, 0, "x")


def test_an_entry_of_a_time_index_may_repeat_an_offset() -> None:
    data = struct.pack(">qIqI", 1_000, 4, 2_000, 4)
    assert offset_after(data, 100, 1_500_000, "x") == 105


def test_any_flipped_bit_of_a_snapshot_is_refused() -> None:
    writer = ProducerEntry(5, 0)
    writer.txn_first_offset = 40
    whole = encode_snapshot([writer, ProducerEntry(6, 0)])
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(CorruptDataError, match=r"^x: its (version is|checksum is wrong)"):
            first_open_transaction(bytes(data), "x")


def test_a_snapshot_has_as_many_producers_as_it_says() -> None:
    body = struct.pack(">i", 2) + encode_snapshot([ProducerEntry(5, 0)])[10:]
    data = struct.pack(">hI", 1, crc32c(body)) + body
    with pytest.raises(CorruptDataError, match=r"^x: it has 1 producers instead of 2"):
        first_open_transaction(data, "x")


def test_torn_files_are_refused() -> None:
    for read in (
        lambda: SegmentOffsets(b"123", 0, "x"),
        lambda: offset_after(b"123", 0, 0, "x"),
        lambda: aborted_entries(struct.pack(">h", 0), "x"),
        lambda: first_open_transaction(b"", "x"),
    ):
        with pytest.raises(CorruptDataError, match=r"^x: "):
            read()
