from __future__ import annotations

from crabka.log.txn_index import AbortedTransaction
from crabka.spark.plan.index_files import AbortedEntry
from crabka.spark.plan.lineage import NO_END, choose_parts
from crabka.spark.plan.segment_objects import SegmentObjects
from crabka.spark.plan.transactions import find_aborted, spans_within
from tests.support.planted_tier import PlantedTier, batches
from tests.support.tier_stores import store_of


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
    assert AbortedEntry(7, 3, 12, 9) in found
    assert spans_within(found, 0, 10) == ((7, 3, 12),)
    assert spans_within(find_aborted(parts[1:2], parts, SegmentObjects(store_of(tier))), 13, 20) == ((8, 14, 22),)


def test_the_search_ends_when_nothing_can_be_open_any_more(monkeypatch: object) -> None:
    tier = three_segments()
    tier.add(batches(30, 2), [(0, 0)], aborted=[AbortedTransaction(9, 31, 33, 34)])
    parts = choose_parts(tier.segments, {0: NO_END})
    store = store_of(tier)
    find_aborted(parts[2:3], parts, SegmentObjects(store))
    # The second entry of the third segment shows that all before 28 had ended, but the part goes on to 30.
    assert len([key for key in store.asked if key.endswith(".txnindex")]) == 2


def test_no_parts_have_no_transactions() -> None:
    assert find_aborted([], [], SegmentObjects(store_of(PlantedTier()))) == []


def test_only_what_overlaps_counts() -> None:
    entries = [AbortedEntry(1, 0, 9, 0), AbortedEntry(2, 5, 15, 0), AbortedEntry(3, 20, 25, 0)]
    assert spans_within(entries, 10, 20) == ((2, 5, 15),)
