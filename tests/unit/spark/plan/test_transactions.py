from __future__ import annotations

import random

from crabka.formats.leader_epochs import NO_END
from crabka.formats.transaction_index import AbortedTransaction
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import choose_parts
from crabka.spark.plan.transactions import AbortedTable, find_aborted
from tests.support.tiers.planted import PlantedTier, batches
from tests.support.tiers.stores import store_of


def three_segments() -> PlantedTier:
    tier = PlantedTier()
    tier.add(batches(0, 2), [(0, 0)])
    tier.add(batches(10, 2), [(0, 0)], aborted=[AbortedTransaction(7, 3, 12, 9)])
    tier.add(batches(20, 2), [(0, 0)], aborted=[AbortedTransaction(8, 14, 22, 22), AbortedTransaction(9, 24, 27, 28)])
    return tier


def test_markers_in_later_segments_count() -> None:
    tier = three_segments()
    parts = choose_parts(tier.segments, {0: NO_END})
    found = find_aborted(parts[:1], parts, SegmentObjects(store_of(tier)))
    assert AbortedTransaction(7, 3, 12, 9) in found
    assert AbortedTable(found).within(0, 10) == ((7, 3, 12),)
    found = find_aborted(parts[1:2], parts, SegmentObjects(store_of(tier)))
    assert AbortedTable(found).within(13, 20) == ((8, 14, 22),)


def test_the_search_ends_when_nothing_can_be_open_any_more(monkeypatch: object) -> None:
    tier = three_segments()
    tier.add(batches(30, 2), [(0, 0)], aborted=[AbortedTransaction(9, 31, 33, 34)])
    parts = choose_parts(tier.segments, {0: NO_END})
    store = store_of(tier)
    find_aborted(parts[2:3], parts, SegmentObjects(store))
    # The second entry of the third segment shows that all before 28 had ended, but the part goes on to 30.
    assert len([key for key in store.asked if key.endswith(".txnindex")]) == 2


def test_markers_between_the_parts_count() -> None:
    tier = three_segments()
    parts = choose_parts(tier.segments, {0: NO_END})
    found = find_aborted([parts[0], parts[2]], parts, SegmentObjects(store_of(tier)))
    assert found == sorted(
        [AbortedTransaction(7, 3, 12, 9), AbortedTransaction(8, 14, 22, 22), AbortedTransaction(9, 24, 27, 28)]
    )


def test_what_lies_between_is_not_read_if_nothing_was_open() -> None:
    tier = PlantedTier()
    for start in range(0, 5_000, 5):
        aborted = AbortedTransaction(7, start, start + 4, start + 5)
        tier.add(batches(start, 1), [(0, 0)], aborted=[aborted])
    parts = choose_parts(tier.segments, {0: NO_END})
    store = store_of(tier)
    found = find_aborted([parts[0], parts[999]], parts, SegmentObjects(store))
    assert [entry.first_offset for entry in found] == [0, 4_995]
    assert len(store.asked) == 2


def test_aborts_of_a_tail_that_does_not_count_are_passed_over() -> None:
    tier = PlantedTier()
    # The old leader aborted a transaction in 15..17, which its successor never saw and wrote anew.
    dead = AbortedTransaction(7, 15, 17, 18)
    tier.add(batches(0, 4), [(0, 0)], aborted=[AbortedTransaction(8, 2, 4, 2), dead])
    tier.add(batches(15, 1, epoch=1), [(0, 0), (1, 15)], aborted=[AbortedTransaction(9, 13, 19, 20)])
    parts = choose_parts(tier.segments, {0: 15, 1: NO_END})
    objects = SegmentObjects(store_of(tier))
    assert find_aborted(parts, parts, objects) == [AbortedTransaction(8, 2, 4, 2), AbortedTransaction(9, 13, 19, 20)]
    # Nor does it end the search for markers that follow: at its time nothing up to 18 was open.
    assert AbortedTransaction(9, 13, 19, 20) in find_aborted(parts[:1], parts, objects)


def test_the_leader_is_asked_where_the_tier_has_a_gap_or_ends() -> None:
    tier = three_segments()
    parts = choose_parts(tier.segments, {0: NO_END})
    asked: list[int] = []

    def ask(border: int) -> list[AbortedTransaction]:
        asked.append(border)
        return [AbortedTransaction(50, border - 3, border - 1, -1)]

    objects = SegmentObjects(store_of(tier))
    found = find_aborted([parts[0], parts[2]], [parts[0], parts[2]], objects, ask)
    assert asked == [10, 30]
    assert {AbortedTransaction(50, 7, 9, -1), AbortedTransaction(50, 27, 29, -1)} <= set(found)
    asked.clear()
    find_aborted(parts[:1], parts, objects, ask)
    # An index says that all before 22 had ended.
    assert asked == []


def test_no_parts_have_no_transactions() -> None:
    assert find_aborted([], [], SegmentObjects(store_of(PlantedTier()))) == []


def test_only_what_overlaps_counts() -> None:
    entries = [AbortedTransaction(1, 0, 9, 0), AbortedTransaction(2, 5, 15, 0), AbortedTransaction(3, 20, 25, 0)]
    assert AbortedTable(entries).within(10, 20) == ((2, 5, 15),)


def test_spans_are_those_that_a_look_at_all_would_find() -> None:
    rng = random.Random(5)
    firsts = [rng.randrange(200) for _ in range(60)]
    entries = [AbortedTransaction(number, first, first + rng.randrange(40), 0) for number, first in enumerate(firsts)]
    table = AbortedTable(entries)
    for start in range(0, 240, 3):
        for end in range(start + 1, 240, 7):
            wanted = {tuple(each[:3]) for each in entries if each.first_offset < end and each.last_offset >= start}
            assert set(table.within(start, end)) == wanted


def test_spans_of_many_ranges_are_found_without_looking_at_all_transactions() -> None:
    class Counted(int):
        compared = 0

        def __ge__(self, other: int) -> bool:
            Counted.compared += 1
            return int(self) >= other

        __hash__ = int.__hash__

    table = AbortedTable([AbortedTransaction(7, 10 * n, Counted(10 * n + 5), 0) for n in range(20_000)])
    Counted.compared = 0
    for number in range(1_000):
        assert len(table.within(200 * number, 200 * number + 200)) == 20
    assert Counted.compared < 100_000
