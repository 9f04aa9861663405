"""One wrong byte of a batch is found from its checksum; larger damage is left alone."""

from __future__ import annotations

import random

import pytest

from crabka.records.builder import build_batch
from crabka.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.correction import (
    MAX_BIT_SEARCH,
    MAX_BYTE_SEARCH,
    Change,
    correct_content,
    is_sound,
)
from crabka.records.header import CRC_POSITION, HEADER_SIZE, sealed
from crabka.records.record import Record
from tests.support.storage.small import NOW_MS, make_batch

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]


def batch_of(codec: int, count: int = 4) -> bytes:
    values = random.Random(7)
    records = [Record(0, NOW_MS + n, b"key %d" % n, values.randbytes(30) + b"same text " * 3) for n in range(count)]
    return build_batch(records, base_offset=40, leader_epoch=3, codec=codec)


def changed(batch: bytes, *places: tuple[int, int]) -> bytes:
    damaged = bytearray(batch)
    for position, mask in places:
        damaged[position] ^= mask
    return bytes(damaged)


@pytest.mark.parametrize("codec", CODECS)
def test_every_byte_that_the_checksum_knows_of_is_corrected(codec: int) -> None:
    batch = batch_of(codec)
    for position in range(CRC_POSITION, len(batch)):
        for mask in (1, 0x80, 0xFF, 0x5A):
            found = correct_content(changed(batch, (position, mask)))
            assert found is not None, (position, mask)
            assert found.data == batch
            assert found.changes == (Change(position, batch[position] ^ mask, batch[position]),)


@pytest.mark.parametrize("codec", CODECS)
def test_larger_damage_is_never_corrected_into_something_else(codec: int, rng: random.Random) -> None:
    batch = batch_of(codec)
    for _ in range(1500):
        places = rng.sample(range(CRC_POSITION, len(batch)), rng.randint(2, 6))
        damaged = changed(batch, *((place, rng.randint(1, 255)) for place in places))
        assert correct_content(damaged) is None


def test_a_stretch_of_zeros_is_not_corrected() -> None:
    batch = make_batch(3, value_bytes=300)
    for start in range(CRC_POSITION, len(batch) - 64, 16):
        assert correct_content(batch[:start] + bytes(64) + batch[start + 64 :]) is None


def test_a_batch_that_is_whole_needs_no_correction() -> None:
    assert correct_content(batch_of(NONE)) is None
    assert correct_content(b"short") is None


def test_of_large_batches_only_changes_of_one_bit_are_looked_for() -> None:
    batch = make_batch(1, value_bytes=MAX_BYTE_SEARCH)
    found = correct_content(changed(batch, (1000, 0x10)))
    assert found is not None
    assert found.data == batch
    assert correct_content(changed(batch, (1000, 0x11))) is None
    assert correct_content(changed(make_batch(1, value_bytes=MAX_BIT_SEARCH), (1000, 0x10))) is None


def test_control_batches_are_corrected() -> None:
    marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
    batch = build_end_transaction_batch(marker, producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    found = correct_content(changed(batch, (HEADER_SIZE + 3, 4)))
    assert found is not None
    assert found.data == batch


def test_a_batch_that_decompresses_to_too_much_is_not_taken() -> None:
    batch = build_batch([Record(0, NOW_MS, None, bytes(5000))], codec=ZSTD)
    damaged = changed(batch, (HEADER_SIZE + 5, 1))
    assert correct_content(damaged) is not None
    assert correct_content(damaged, 1000) is None


@pytest.mark.parametrize(
    ("position", "value"),
    [(22, 0x07), (21, 0x01), (23, 0x80), (26, 9), (26, 2), (57, 0x80), (60, 9), (43, 0x80)],
    ids=["codec", "attributes", "negative delta", "count", "offsets", "negative count", "more records", "producer"],
)
def test_headers_that_contradict_the_records_are_not_sound(position: int, value: int) -> None:
    batch = bytearray(make_batch(4))
    assert is_sound(bytes(batch))
    batch[position] = value
    sound = is_sound(sealed(batch))
    # More offsets than records are what compaction leaves.
    assert sound is (position == 26 and value == 9)
