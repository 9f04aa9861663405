"""Which remote segments belong to the history of a log."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.lineage import EpochLineage
from tests.support.remote_segments import remote_segment

HISTORY = EpochLineage([(0, 0), (2, 50), (5, 100)], 200)


def test_offsets_belong_to_the_epoch_that_began_last() -> None:
    assert [HISTORY.epoch_at(offset) for offset in (0, 49, 50, 99, 100, 199)] == [0, 0, 2, 2, 5, 5]
    assert EpochLineage([(1, 10)], 20).epoch_at(9) is None


def test_an_epoch_ends_where_the_next_begins_or_the_log_ends() -> None:
    assert [HISTORY.end_of(epoch) for epoch in (0, 2, 5)] == [50, 100, 200]


def test_epochs_without_records_are_left_out() -> None:
    lineage = EpochLineage([(0, 0), (1, 10), (2, 10), (3, 20)], 30)
    assert list(lineage.epochs) == [0, 2, 3]
    assert lineage.has(remote_segment(0, 15, epochs=[(0, 0), (2, 10)]))
    assert lineage.has(remote_segment(0, 15, epochs=[(0, 0), (1, 10), (2, 10)]))


@pytest.mark.parametrize(
    ("start", "end", "epochs"),
    [
        (0, 49, [(0, 0)]),
        (10, 30, [(0, 10)]),
        (40, 120, [(0, 40), (2, 50), (5, 100)]),
        (60, 99, [(2, 60)]),
        (100, 199, [(5, 100)]),
    ],
)
def test_a_segment_of_this_history_is_known(start: int, end: int, epochs: list[tuple[int, int]]) -> None:
    assert HISTORY.has(remote_segment(start, end, epochs=epochs))


@pytest.mark.parametrize(
    ("start", "end", "epochs"),
    [
        (0, 60, [(0, 0)]),  # longer than the epoch in this history
        (40, 120, [(0, 40), (5, 100)]),  # skips an epoch
        (40, 120, [(0, 40), (2, 55), (5, 100)]),  # an epoch began elsewhere
        (50, 80, [(3, 50)]),  # an epoch that this history does not have
        (40, 120, [(0, 40), (2, 50), (3, 90)]),
        (45, 99, [(2, 45)]),  # began before its epoch did
        (100, 200, [(5, 100)]),  # longer than the log
        (150, 180, [(6, 150)]),  # of a later leader
    ],
)
def test_a_segment_of_another_history_is_not(start: int, end: int, epochs: list[tuple[int, int]]) -> None:
    assert not HISTORY.has(remote_segment(start, end, epochs=epochs))


def test_the_log_start_cuts_the_oldest_epoch_but_not_the_segment() -> None:
    # The segment [14, 150] overlaps one that ended at 50 and is gone (example of Kafka's isRemoteSegmentWithin...).
    lineage = EpochLineage([(7, 51), (9, 100)], 200)
    assert lineage.has(remote_segment(14, 150, epochs=[(5, 14), (7, 15), (9, 100)]))
    assert lineage.has(remote_segment(15, 80, epochs=[(7, 15)]))


def test_a_segment_from_before_all_epochs_is_of_another_history() -> None:
    assert not EpochLineage([(7, 51)], 200).has(remote_segment(0, 40, epochs=[(5, 0)]))
    assert not EpochLineage([], 0).has(remote_segment(0, 40))


def test_segments_that_share_no_epoch_from_the_first_on_are_of_another_history() -> None:
    lineage = EpochLineage([(3, 30), (6, 60)], 90)
    assert not lineage.has(remote_segment(10, 50, epochs=[(2, 10), (4, 40)]))


def test_a_history_begins_with_its_first_epoch() -> None:
    assert HISTORY.start_offset == 0
    assert EpochLineage([(1, 10), (2, 15)], 20).start_offset == 10
    assert EpochLineage([], 20).start_offset == 20
