"""Which epoch wrote which offsets, and which segments belong to a history."""

from __future__ import annotations

import pytest

from crabka.formats.leader_epochs import EpochEnd, EpochLineage, epochs_rise, format_epochs

HISTORY = EpochLineage([(0, 0), (2, 50), (5, 100)], 200)


def test_offsets_belong_to_the_epoch_that_began_last() -> None:
    assert [HISTORY.epoch_at(offset) for offset in (0, 49, 50, 99, 100, 199)] == [0, 0, 2, 2, 5, 5]
    assert EpochLineage([(1, 10)], 20).epoch_at(9) is None


def test_an_epoch_ends_where_the_next_begins_or_the_log_ends() -> None:
    assert [HISTORY.end_of(epoch) for epoch in (0, 2, 5)] == [50, 100, 200]


def test_epochs_without_records_are_left_out() -> None:
    lineage = EpochLineage([(0, 0), (1, 10), (2, 10), (3, 20)], 30)
    assert list(lineage.epochs) == [0, 2, 3]
    assert lineage.holds([(0, 0), (2, 10)], 15)
    assert lineage.holds([(0, 0), (1, 10), (2, 10)], 15)


@pytest.mark.parametrize(
    ("end", "epochs"),
    [
        (49, [(0, 0)]),
        (30, [(0, 10)]),
        (120, [(0, 40), (2, 50), (5, 100)]),
        (99, [(2, 60)]),
        (199, [(5, 100)]),
    ],
)
def test_a_segment_of_this_history_is_known(end: int, epochs: list[tuple[int, int]]) -> None:
    assert HISTORY.holds(epochs, end)


@pytest.mark.parametrize(
    ("end", "epochs"),
    [
        (60, [(0, 0)]),  # longer than the epoch in this history
        (120, [(0, 40), (5, 100)]),  # skips an epoch
        (120, [(0, 40), (2, 55), (5, 100)]),  # an epoch began elsewhere
        (80, [(3, 50)]),  # an epoch that this history does not have
        (120, [(0, 40), (2, 50), (3, 90)]),
        (99, [(2, 45)]),  # began before its epoch did
        (200, [(5, 100)]),  # longer than the log
        (180, [(6, 150)]),  # of a later leader
    ],
)
def test_a_segment_of_another_history_is_not(end: int, epochs: list[tuple[int, int]]) -> None:
    assert not HISTORY.holds(epochs, end)


def test_the_log_start_cuts_the_oldest_epoch_but_not_the_segment() -> None:
    # The segment [14, 150] overlaps one that ended at 50 and is gone (example of Kafka's isRemoteSegmentWithin...).
    lineage = EpochLineage([(7, 51), (9, 100)], 200)
    assert lineage.holds([(5, 14), (7, 15), (9, 100)], 150)
    assert lineage.holds([(7, 15)], 80)


def test_a_segment_from_before_all_epochs_is_of_another_history() -> None:
    assert not EpochLineage([(7, 51)], 200).holds([(5, 0)], 40)
    assert not EpochLineage([], 0).holds([(0, 0)], 40)


def test_segments_that_share_no_epoch_from_the_first_on_are_of_another_history() -> None:
    lineage = EpochLineage([(3, 30), (6, 60)], 90)
    assert not lineage.holds([(2, 10), (4, 40)], 50)


def test_a_history_begins_with_its_first_epoch() -> None:
    assert HISTORY.start_offset == 0
    assert EpochLineage([(1, 10), (2, 15)], 20).start_offset == 10
    assert EpochLineage([], 20).start_offset == 20


LOG_END = 200
LINEAGE = EpochLineage([(1, 0), (3, 50), (4, 120)])


@pytest.mark.parametrize(("offset", "epoch"), [(0, 1), (49, 1), (50, 3), (119, 3), (1000, 4)])
def test_an_offset_belongs_to_the_epoch_that_began_last(offset: int, epoch: int) -> None:
    assert LINEAGE.epoch_at(offset) == epoch


def test_an_offset_before_all_entries_has_no_epoch() -> None:
    assert EpochLineage([(1, 10)]).epoch_at(9) is None


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (4, EpochEnd(4, LOG_END)),
        (3, EpochEnd(3, 120)),
        (2, EpochEnd(1, 50)),
        (1, EpochEnd(1, 50)),
        (0, EpochEnd(0, 0)),
        (5, EpochEnd(-1, -1)),
        (-1, EpochEnd(-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_begins(epoch: int, end: EpochEnd) -> None:
    assert LINEAGE.end_offset_for(epoch, LOG_END) == end


def test_an_empty_lineage_knows_no_ends() -> None:
    assert EpochLineage().end_offset_for(0, LOG_END) == EpochEnd(-1, -1)


def test_the_floor_of_an_epoch_is_the_largest_not_above() -> None:
    assert [LINEAGE.floor_epoch(epoch) for epoch in (0, 1, 2, 3, 9)] == [None, 1, 1, 3, 4]


@pytest.mark.parametrize(
    ("start", "last", "epochs"),
    [
        (0, 9, ((1, 0),)),
        (5, 9, ((1, 5),)),
        (5, 10, ((1, 5), (3, 10))),
        (10, 30, ((3, 10), (4, 20))),
        (12, 19, ((3, 12),)),
        (25, 99, ((4, 25),)),
    ],
)
def test_the_epochs_of_a_segment_are_cut_to_it(start: int, last: int, epochs: tuple[tuple[int, int], ...]) -> None:
    assert EpochLineage([(1, 0), (3, 10), (4, 20)]).between(start, last) == epochs


def test_a_segment_before_all_epochs_has_those_that_begin_in_it() -> None:
    lineage = EpochLineage([(3, 10), (4, 20)])
    assert lineage.between(5, 15) == ((3, 10),)
    assert lineage.between(0, 9) == ()
    assert EpochLineage().between(0, 9) == ()


def test_entries_that_contradict_a_later_epoch_are_dropped() -> None:
    assert EpochLineage([(1, 0), (3, 50), (2, 60), (4, 120), (6, 100)]).entries == [(1, 0), (3, 50), (6, 100)]
    assert LINEAGE.with_epoch(6, 100).entries == [(1, 0), (3, 50), (6, 100)]
    assert LINEAGE.with_epoch(4, 150) is LINEAGE.with_epoch(2, 150) is LINEAGE


def test_a_lineage_is_cut_at_both_ends() -> None:
    assert LINEAGE.before(121) is LINEAGE
    assert LINEAGE.before(120).entries == [(1, 0), (3, 50)]
    assert LINEAGE.before(0).entries == []
    assert LINEAGE.since(0) is LINEAGE
    assert LINEAGE.since(20).entries == [(1, 20), (3, 50), (4, 120)]
    assert LINEAGE.since(50).entries == [(3, 50), (4, 120)]
    assert LINEAGE.since(500).entries == [(4, 500)]
    assert EpochLineage([(2, 10)]).since(5).entries == [(2, 10)]


def test_the_epochs_of_a_segment_after_the_log_start_was_raised() -> None:
    assert EpochLineage([(0, 61)]).between(32, 63) == ((0, 61),)


def test_epochs_are_printed() -> None:
    assert format_epochs(((0, 106), (2, 120))) == "0 from 106, 2 from 120"
    assert format_epochs(()) == "none"
    assert epochs_rise(())
    assert epochs_rise(((0, 5),))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (((0, 0), (1, 10)), ((0, 0), (1, 10), (2, 45))),
        (((0, 0), (1, 10), (2, 45)), ((1, 15), (2, 45), (3, 60))),  # records up to 14 were deleted between the copies
        (((0, 0), (1, 20)), ((0, 0), (2, 15))),  # an unclean election
        (((0, 0), (1, 10)), ((0, 15), (2, 45))),  # one and records deleted after it
        (((0, 0),), ((4, 100),)),
    ],
)
def test_histories_may_differ_in_their_starts_and_ends(
    a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...]
) -> None:
    assert EpochLineage(a).agrees_with(EpochLineage(b))
    assert EpochLineage(b).agrees_with(EpochLineage(a))


@pytest.mark.parametrize(
    "wrong",
    [
        ((0, 0), (1, 18), (4, 45)),
        ((0, 0), (3, 10), (4, 45)),
        ((0, 0), (4, 45)),
        ((0, 0), (1, 10), (4, 46)),
        ((0, 0), (1, 10), (2, 30), (4, 45)),
        ((1, 5), (4, 45)),
    ],
)
def test_histories_agree_before_an_epoch_that_both_know(wrong: tuple[tuple[int, int], ...]) -> None:
    true = EpochLineage(((0, 0), (1, 10), (4, 45), (6, 70)))
    assert not EpochLineage(wrong).agrees_with(true)
    assert not true.agrees_with(EpochLineage(wrong))
