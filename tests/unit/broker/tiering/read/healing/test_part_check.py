"""Parts of a segment are whole, or in doubt."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.read.healing.part_check import DoubtError, PartCheck, PartFacts, PartToCheck, facts_of
from crabka.testing.remote_samples import sample_segment
from tests.support.storage.small import make_batch

BATCHES = [make_batch(3, value_bytes=20 * (n % 4), base_offset=3 * n, leader_epoch=n // 5) for n in range(10)]
STARTS = [sum(map(len, BATCHES[:number])) for number in range(11)]
LOG = b"".join(BATCHES)
FACTS = PartFacts(0, 29, len(LOG), ((0, 0), (1, 15)))


def part(first: int, end: int, start: int = 0, *, is_indexed: bool = False, ahead: int = 0) -> PartToCheck:
    """Return batches [first, end), found from the batch `start` on."""
    return PartToCheck(
        start_position=STARTS[start],
        indexed_offset=3 * start + 2 if is_indexed else None,
        start_offset=None if is_indexed else 3 * start,
        offset=3 * first + 1,
        position=STARTS[first],
        end=STARTS[end],
        next_offset=3 * end,
        ahead_end=ahead,
    )


def check(wanted: PartToCheck, data: bytes = LOG, facts: PartFacts = FACTS) -> tuple[int, int]:
    return PartCheck(lambda length, position: data[position : position + length], facts, wanted).run()


def flipped(position: int, mask: int = 1) -> bytes:
    return LOG[:position] + bytes([LOG[position] ^ mask]) + LOG[position + 1 :]


def test_whole_batches_pass() -> None:
    assert check(part(0, 10)) == (0, len(LOG))
    assert check(part(4, 6, 2)) == (STARTS[2], STARTS[6])
    assert check(part(4, 6, 3, is_indexed=True)) == (STARTS[3], STARTS[6])
    assert check(part(4, 6, ahead=len(LOG))) == (0, len(LOG))


def test_any_wrong_bit_of_the_part_is_noticed() -> None:
    for position in range(STARTS[3], STARTS[6]):
        for bit in range(8):
            with pytest.raises(DoubtError):
                check(part(3, 6, 2, is_indexed=True), flipped(position, 1 << bit))


def test_wrong_offsets_and_lengths_of_batches_on_the_way_are_noticed() -> None:
    for position in [STARTS[2] + place for place in range(12)]:
        with pytest.raises(DoubtError):
            check(part(3, 6, 2, is_indexed=True), flipped(position))
    assert check(part(3, 6, 2), flipped(STARTS[2] + 70)), "its content is not served"


def test_what_lies_ahead_is_left_to_its_reader() -> None:
    assert check(part(0, 2, ahead=len(LOG)), flipped(STARTS[5] + 70)) == (0, STARTS[5])


def test_an_entry_of_an_index_must_be_the_end_of_a_batch() -> None:
    with pytest.raises(DoubtError, match="no batch ends"):
        check(part(4, 6, 3, is_indexed=True)._replace(indexed_offset=10))
    with pytest.raises(DoubtError):
        check(part(4, 6, 3, is_indexed=True)._replace(start_position=STARTS[3] + 1))
    # Older brokers name the end of all batches that were written at once.
    assert check(part(5, 6, 3, is_indexed=True)._replace(indexed_offset=14))


def test_a_part_that_does_not_hold_the_offset_is_in_doubt() -> None:
    with pytest.raises(DoubtError, match="does not hold offset"):
        check(part(4, 6)._replace(offset=18))
    with pytest.raises(DoubtError, match="end before offset"):
        check(part(4, 6)._replace(next_offset=17))
    with pytest.raises(DoubtError):
        check(part(4, 6)._replace(end=STARTS[6] - 1))


def test_holes_pass_only_where_a_survey_has_seen_them() -> None:
    data = BATCHES[0] + BATCHES[3]
    wanted = PartToCheck(0, None, 0, 4, len(BATCHES[0]), len(data), 12, 0)
    facts = FACTS._replace(size=len(data), end_offset=11)
    with pytest.raises(DoubtError):
        check(wanted, data, facts)
    assert check(wanted, data, facts._replace(has_holes=True)) == (0, len(data))


def test_the_end_of_the_segment_is_that_of_the_metadata() -> None:
    with pytest.raises(DoubtError, match="ends with offset 29"):
        check(part(8, 10), facts=FACTS._replace(end_offset=30))
    with pytest.raises(DoubtError):
        check(part(8, 10), LOG[:-1])


def test_facts_are_those_of_the_metadata() -> None:
    facts = facts_of(sample_segment(1, (100, 199), size_bytes=5000))
    assert facts[:3] == (100, 199, 5000)
    assert [FACTS.epoch_of(offset) for offset in (-1, 0, 14, 15)] == [None, 0, 0, 1]
