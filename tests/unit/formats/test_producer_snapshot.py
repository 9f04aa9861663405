from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from crabka.errors import CorruptDataError
from crabka.formats.producer_snapshot import ProducerRow, decode_producers, encode_producers, open_transactions
from tests.support.recorded.files import GOLDEN

ROWS = [ProducerRow(1004, 2, 3, 96, 3, 1_700_000_900_003, 0, 93), ProducerRow(32, 6, -1, -1, 0, -1, 1, -1)]


def test_kafkas_file_reads_and_writes_back_equal() -> None:
    data = (GOLDEN / "single/d2/txn-0/00000000000000000098.snapshot").read_bytes()
    rows = decode_producers(data)
    assert encode_producers(rows) == data
    found = {row.producer_id: row for row in rows}
    assert found[1004][2:5] == (3, 96, 3)
    assert found[1004].txn_first_offset == 93
    assert found[32] == ProducerRow(32, 6, -1, -1, 0, found[32].last_timestamp, 0, -1)


def test_snapshots_round_trip() -> None:
    assert decode_producers(encode_producers(ROWS)) == ROWS
    assert decode_producers(memoryview(encode_producers([]))) == []


def test_open_transactions_are_those_with_a_first_offset() -> None:
    assert open_transactions(ROWS) == {1004: 93}


def test_any_flipped_bit_is_refused() -> None:
    whole = encode_producers(ROWS)
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(CorruptDataError, match=r"^x: its (version is|checksum is wrong)"):
            decode_producers(data, "x")


def test_cut_files_are_refused() -> None:
    data = encode_producers(ROWS)
    for end in range(len(data)):
        with pytest.raises(CorruptDataError, match=r"^x: its (\d+ bytes are too few|checksum is wrong)"):
            decode_producers(data[:end], "x")


def test_a_snapshot_has_as_many_producers_as_it_says() -> None:
    body = struct.pack(">i", 3) + encode_producers(ROWS)[10:]
    with pytest.raises(CorruptDataError, match=r"^x: its 102 bytes do not hold 3 producers"):
        decode_producers(struct.pack(">hI", 1, crc32c(body)) + body, "x")
