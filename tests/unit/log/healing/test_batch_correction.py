"""Damaged ranges of a log as they were written: by the checksum, and by what the neighbours say."""

from __future__ import annotations

import pytest

from crabka.log.healing.batch_correction import RangeFacts, correct_range
from crabka.records.header import CRC_POSITION
from tests.support.storage.small import make_batch

LIMIT = 1 << 20
BATCH = make_batch(3, value_bytes=30, base_offset=100, leader_epoch=4)
NEXT = make_batch(2, value_bytes=60, base_offset=103, leader_epoch=4)


def facts(offset: int = 100, end_offset: int = 103, epoch: int | None = 4) -> RangeFacts:
    return RangeFacts(offset, end_offset, lambda _offset: epoch, LIMIT)


def flipped(data: bytes, position: int, mask: int) -> bytes:
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


@pytest.mark.parametrize("mask", [1, 0x40, 0xFF])
def test_every_byte_of_a_batch_is_put_right(mask: int) -> None:
    for position in range(len(BATCH)):
        found = correct_range(flipped(BATCH, position, mask), facts())
        assert found is not None, position
        assert found.data == BATCH, position
        assert [each.position for each in found.changes] == [position]


@pytest.mark.parametrize("mask", [2, 0x80])
def test_every_byte_of_two_batches_is_put_right(mask: int) -> None:
    data = BATCH + NEXT
    for position in range(len(data)):
        found = correct_range(flipped(data, position, mask), facts(end_offset=105))
        assert found is not None, position
        assert found.data == data, position


def test_one_byte_in_each_of_two_batches_is_put_right() -> None:
    data = flipped(BATCH, 70, 1) + flipped(NEXT, 4, 0x10)
    found = correct_range(data, facts(end_offset=105))
    assert found is not None
    assert found.data == BATCH + NEXT


def test_a_base_offset_is_not_guessed_where_offsets_are_missing() -> None:
    damaged = flipped(BATCH, 0, 0x10)
    assert correct_range(damaged, facts()) is not None
    assert correct_range(damaged, facts(end_offset=104)) is None
    assert correct_range(damaged, facts(offset=99)) is None


def test_content_is_put_right_in_a_range_with_holes() -> None:
    found = correct_range(flipped(BATCH, 80, 1), facts(offset=90, end_offset=110))
    assert found is not None
    assert found.data == BATCH


def test_a_leader_epoch_that_is_not_known_is_left_as_it_is() -> None:
    assert correct_range(flipped(BATCH, 15, 1), facts(epoch=None)) is None
    without = make_batch(3, base_offset=100)
    found = correct_range(flipped(without, 70, 1), facts())
    assert found is not None
    assert found.data == without


def test_what_is_damaged_twice_stays_so() -> None:
    assert correct_range(flipped(flipped(BATCH, 70, 1), 90, 1), facts()) is None
    assert correct_range(BATCH[:40] + bytes(40) + BATCH[80:], facts()) is None
    assert correct_range(BATCH[:-1], facts()) is None
    assert correct_range(bytes(30), facts()) is None


def test_whole_batches_need_no_correction() -> None:
    assert correct_range(BATCH, facts()) is None


def test_the_checksum_itself_may_be_damaged() -> None:
    for position in range(CRC_POSITION, CRC_POSITION + 4):
        found = correct_range(flipped(BATCH, position, 0x21), facts())
        assert found is not None
        assert found.data == BATCH
