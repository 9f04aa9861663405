"""Walking over damaged segments: every flipped bit is found, and nothing that is whole is lost."""

from __future__ import annotations

import pytest

from crabka.log.segment.batch_walk import BatchWalk, Gap, OffsetRules, WholeBatch
from crabka.records.header import parse_header
from crabka.testing import MemoryFileSystem
from tests.support.storage.small import make_batch

SIZES = (1, 3, 2, 1, 4)
RULES = OffsetRules(0, sum(SIZES), 3)


def batches(*, epochs: tuple[int, ...] = (0, 0, 1, 1, 3)) -> list[bytes]:
    made, offset = [], 0
    for count, epoch in zip(SIZES, epochs, strict=True):
        made.append(make_batch(count, base_offset=offset, leader_epoch=epoch))
        offset += count
    return made


def walk(data: bytes, rules: OffsetRules = RULES) -> list[WholeBatch | Gap]:
    fs = MemoryFileSystem()
    file = fs.open("/segment", create=True)
    file.pwritev([data], 0)
    return list(BatchWalk(file, len(data), rules).pieces())


def gaps(pieces: list[WholeBatch | Gap]) -> list[tuple[int, int, int, int]]:
    return [piece[:4] for piece in pieces if isinstance(piece, Gap)]


def test_a_whole_segment_has_no_gaps() -> None:
    made = batches()
    pieces = walk(b"".join(made))
    assert [bytes(piece.data) for piece in pieces if isinstance(piece, WholeBatch)] == made
    assert not gaps(pieces)


@pytest.mark.parametrize("index", range(len(SIZES)))
def test_every_flipped_bit_of_a_batch_is_a_gap_of_exactly_that_batch(index: int) -> None:
    made = batches()
    data = b"".join(made)
    start = sum(len(each) for each in made[:index])
    offset, end_offset = sum(SIZES[:index]), sum(SIZES[: index + 1])
    wrong = []
    for bit in range(len(made[index]) * 8):
        damaged = bytearray(data)
        damaged[start + bit // 8] ^= 1 << bit % 8
        pieces = walk(bytes(damaged))
        if gaps(pieces) != [(start, start + len(made[index]), offset, end_offset)]:
            wrong.append(bit)
    # A leader epoch that stays between those of the neighbours cannot be distinguished from the right one.
    epoch_bits = range(12 * 8, 16 * 8)
    assert all(bit in epoch_bits for bit in wrong), wrong
    assert len(wrong) <= 2


def test_a_batch_with_a_jump_is_blamed_not_the_one_after_it() -> None:
    made = batches(epochs=(0, 0, 0, 0, 0))
    made[1] = make_batch(3, base_offset=5, leader_epoch=0)
    assert gaps(walk(b"".join(made))) == [(len(made[0]), len(made[0]) + len(made[1]), 1, 4)]


def test_holes_of_compaction_are_no_gaps() -> None:
    made = batches()
    del made[1], made[2]
    assert not gaps(walk(b"".join(made)))


def test_a_large_hole_of_damage_ends_with_the_next_whole_batch() -> None:
    made = batches()
    data = bytearray(b"".join(made))
    start, end = len(made[0]) + 5, sum(map(len, made[:3])) + 9
    data[start:end] = bytes(end - start)
    assert gaps(walk(bytes(data))) == [(len(made[0]), sum(map(len, made[:4])), 1, 7)]


def test_a_torn_end_is_a_gap_up_to_the_end_of_the_segment() -> None:
    made = batches()
    data = b"".join(made)[:-3]
    last = sum(map(len, made[:4]))
    assert gaps(walk(data)) == [(last, len(data), 7, 11)]
    assert parse_header(made[4]).base_offset == 7
