from __future__ import annotations

import pytest

from crabka.log.partition.leader_epochs import EpochEnd, LeaderEpochCache

LOG_END = 200


def cache() -> LeaderEpochCache:
    return LeaderEpochCache([(1, 0), (3, 50), (4, 120)])


def test_assigning_keeps_epochs_and_offsets_rising() -> None:
    epochs = cache()
    epochs.assign(4, 150)
    epochs.assign(2, 150)
    assert epochs.entries == [(1, 0), (3, 50), (4, 120)]
    epochs.assign(6, 100)
    assert epochs.entries == [(1, 0), (3, 50), (6, 100)]
    assert epochs.latest == 6


def test_an_epoch_without_records_gives_way() -> None:
    epochs = LeaderEpochCache([(1, 0), (2, 10)])
    epochs.assign(3, 10)
    assert epochs.entries == [(1, 0), (3, 10)]


@pytest.mark.parametrize(("offset", "epoch"), [(0, 1), (49, 1), (50, 3), (119, 3), (1000, 4)])
def test_an_offset_belongs_to_the_epoch_that_began_last(offset: int, epoch: int) -> None:
    assert cache().epoch_for_offset(offset) == epoch


def test_an_offset_before_all_entries_has_no_epoch() -> None:
    assert LeaderEpochCache([(1, 10)]).epoch_for_offset(9) is None


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
    assert cache().end_offset_for(epoch, LOG_END) == end


def test_an_empty_cache_knows_no_ends() -> None:
    assert LeaderEpochCache().end_offset_for(0, LOG_END) == EpochEnd(-1, -1)


def test_start_of_an_epoch() -> None:
    assert cache().start_of(3) == 50
    assert cache().start_of(2) is None


def test_truncating_the_end_drops_epochs_that_began_there() -> None:
    epochs = cache()
    epochs.truncate_from_end(120)
    assert epochs.entries == [(1, 0), (3, 50)]
    assert epochs.latest == 3
    epochs.truncate_from_end(0)
    assert epochs.entries == []
    assert epochs.latest == -1


def test_truncating_the_start_moves_the_first_entry_as_kafka_does() -> None:
    epochs = LeaderEpochCache([(0, 0), (2, 120)])
    epochs.truncate_from_start(53)
    assert epochs.encode() == b"0\n2\n0 53\n2 120\n"
    epochs.truncate_from_start(120)
    assert epochs.entries == [(2, 120)]
    epochs.truncate_from_start(10)
    assert epochs.entries == [(2, 120)]


def test_only_changes_make_the_cache_dirty() -> None:
    epochs = cache()
    assert not epochs.dirty
    epochs.assign(4, 150)
    epochs.truncate_from_end(LOG_END)
    epochs.truncate_from_start(0)
    assert not epochs.dirty
    epochs.clear()
    assert epochs.dirty


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
    assert LeaderEpochCache([(1, 0), (3, 10), (4, 20)]).between(start, last) == epochs


def test_a_segment_before_all_epochs_has_those_that_begin_in_it() -> None:
    cache = LeaderEpochCache([(3, 10), (4, 20)])
    assert cache.between(5, 15) == ((3, 10),)
    assert cache.between(0, 9) == ()
    assert LeaderEpochCache().between(0, 9) == ()


def test_the_text_for_the_tier_holds_the_epochs_below_the_end() -> None:
    cache = LeaderEpochCache([(1, 0), (3, 10), (4, 20)])
    assert cache.text_up_to(20) == b"0\n2\n1 0\n3 10\n"
    assert cache.text_up_to(21) == cache.encode()
    assert cache.text_up_to(0) == b"0\n0\n"
