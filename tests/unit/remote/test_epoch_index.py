"""Which segment of an epoch is found for an offset."""

from __future__ import annotations

from crabka.remote.epoch_index import EpochIndex, EpochRange
from crabka.testing.remote_samples import sample_segment


def entry(number: int, first: int, last: int, *, with_txn_index: bool = False) -> EpochRange:
    """A range of a segment that is finished as the `number`-th one."""
    return EpochRange(first, last, number, sample_segment(number, (first, last), with_txn_index=with_txn_index))


def remove(index: EpochIndex, row: EpochRange) -> None:
    index.remove(row.first, row.last, row.segment)


def index_of(*entries: EpochRange) -> EpochIndex:
    index = EpochIndex()
    for row in entries:
        index.add(*row)
    return index


def found(index: EpochIndex, offset: int) -> int | None:
    segment = index.find(offset)
    return None if segment is None else segment.segment_id.id.int


def next_with_txn_index(index: EpochIndex, offset: int) -> int | None:
    segment = index.find_with_txn_index(offset)
    return None if segment is None else segment.segment_id.id.int


def test_an_offset_is_found_from_the_first_to_the_last_of_a_segment_and_not_in_gaps() -> None:
    index = index_of(entry(1, 10, 19), entry(2, 30, 39))
    answers = {9: None, 10: 1, 19: 1, 20: None, 29: None, 30: 2, 39: 2, 40: None}
    assert {offset: found(index, offset) for offset in answers} == answers


def test_nothing_is_found_in_an_empty_index() -> None:
    index = EpochIndex()
    assert found(index, 0) is None
    assert next_with_txn_index(index, 0) is None
    assert len(index) == 0


def test_of_segments_with_the_same_start_the_longer_one_is_found_whichever_was_finished_first() -> None:
    short_first = index_of(entry(1, 0, 100), entry(2, 0, 200))
    long_first = index_of(entry(1, 0, 200), entry(2, 0, 100))
    assert [found(short_first, offset) for offset in (50, 150)] == [2, 2]
    assert [found(long_first, offset) for offset in (50, 150)] == [1, 1]


def test_of_equal_segments_the_one_finished_last_is_found_and_the_other_when_that_is_deleted() -> None:
    index = index_of(entry(1, 0, 99), entry(2, 0, 99))
    assert found(index, 50) == 2
    remove(index, entry(2, 0, 99))
    assert found(index, 50) == 1


def test_a_longer_segment_hides_those_inside_it() -> None:
    index = index_of(entry(1, 10, 90), entry(2, 91, 95), entry(3, 5, 100), entry(4, 101, 200))
    answers = {4: None, 5: 3, 50: 3, 93: 3, 97: 3, 100: 3, 101: 4}
    assert {offset: found(index, offset) for offset in answers} == answers


def test_a_short_segment_that_is_finished_late_does_not_hide_the_rest_of_a_longer_one() -> None:
    index = index_of(entry(1, 0, 200), entry(2, 50, 100))
    assert [found(index, offset) for offset in (49, 75, 150, 200)] == [1, 1, 1, 1]


def test_of_overlapping_segments_the_one_that_starts_later_is_found() -> None:
    index = index_of(entry(1, 0, 100), entry(2, 50, 150))
    assert [found(index, offset) for offset in (49, 50, 100, 150)] == [1, 2, 2, 2]


def test_with_the_same_end_a_later_start_is_found_unless_the_earlier_start_was_finished_later() -> None:
    assert found(index_of(entry(1, 0, 100), entry(2, 50, 100)), 75) == 2
    assert found(index_of(entry(1, 50, 100), entry(2, 0, 100)), 75) == 2


def test_hidden_segments_are_found_again_when_what_hid_them_is_deleted() -> None:
    index = index_of(entry(1, 10, 40), entry(2, 41, 90), entry(3, 20, 60), entry(4, 0, 100))
    assert found(index, 50) == 4
    remove(index, entry(4, 0, 100))
    answers = {9: None, 15: 1, 30: 3, 50: 2, 90: 2, 91: None}
    assert {offset: found(index, offset) for offset in answers} == answers


def test_a_hidden_segment_stays_hidden_while_another_one_hides_it() -> None:
    index = index_of(entry(1, 10, 20), entry(2, 5, 50), entry(3, 0, 100))
    remove(index, entry(3, 0, 100))
    assert found(index, 15) == 2
    remove(index, entry(2, 5, 50))
    assert found(index, 15) == 1


def test_a_hidden_segment_can_be_deleted_itself() -> None:
    index = index_of(entry(1, 10, 20), entry(2, 10, 30), entry(3, 0, 100))
    remove(index, entry(1, 10, 20))
    remove(index, entry(3, 0, 100))
    assert [found(index, offset) for offset in (15, 25)] == [2, 2]
    assert [segment.segment_id.id.int for segment in index] == [2]


def test_the_size_is_that_of_all_segments_hidden_ones_included() -> None:
    index = index_of(entry(1, 10, 20), entry(2, 0, 100))
    assert index.size_bytes == 2_000
    remove(index, entry(1, 10, 20))
    assert index.size_bytes == 1_000
    assert len(index) == 1


def test_the_next_segment_with_a_transaction_index_is_the_one_at_the_offset_or_a_later_one() -> None:
    index = index_of(
        entry(1, 0, 9),
        entry(2, 10, 19, with_txn_index=True),
        entry(3, 30, 39),
        entry(4, 40, 49, with_txn_index=True),
    )
    answers = {0: 2, 10: 2, 19: 2, 20: 4, 35: 4, 49: 4, 50: None}
    assert {offset: next_with_txn_index(index, offset) for offset in answers} == answers


def test_a_transaction_index_of_a_deleted_or_hidden_segment_is_not_found() -> None:
    index = index_of(entry(1, 0, 9, with_txn_index=True), entry(2, 10, 19, with_txn_index=True))
    remove(index, entry(1, 0, 9, with_txn_index=True))
    assert next_with_txn_index(index, 0) == 2
    index.add(*entry(3, 0, 30))
    assert next_with_txn_index(index, 0) is None
    remove(index, entry(3, 0, 30))
    assert next_with_txn_index(index, 0) == 2


def test_of_overlapping_segments_the_transaction_index_is_that_of_the_segment_found_for_the_offset() -> None:
    index = index_of(entry(1, 0, 100, with_txn_index=True), entry(2, 50, 150, with_txn_index=True))
    assert next_with_txn_index(index, 49) == 1
    assert next_with_txn_index(index, 75) == 2
