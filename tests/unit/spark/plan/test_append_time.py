from __future__ import annotations

import pytest

from crabka.records.rewrite import with_log_append_time
from crabka.spark.plan.append_time import without_later
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierPart
from tests.support.tiers.planted import FIRST_TIMESTAMP_MS, PlantedTier, batches
from tests.support.tiers.stores import MemoryTierStore, store_of

RECORDS = 10


def stamped(start: int) -> bytes:
    """Two batches that were appended at the time of their first offset."""
    data = batches(start, 2)
    middle = len(data) // 2
    times = (FIRST_TIMESTAMP_MS + start, FIRST_TIMESTAMP_MS + start + 5)
    pieces = zip((data[:middle], data[middle:]), times, strict=True)
    return b"".join(with_log_append_time(piece, now_ms) for piece, now_ms in pieces)


def planted(stamps: list[bool]) -> tuple[MemoryTierStore, list[TierPart]]:
    """Segments of ten records each, stamped by the broker or not."""
    tier = PlantedTier()
    for number, is_stamped in enumerate(stamps):
        start = number * RECORDS
        tier.add(stamped(start) if is_stamped else batches(start, 2), [(0, 0)])
    return store_of(tier), [TierPart(each, each.start_offset, each.end_offset + 1) for each in tier.segments]


def kept(stamps: list[bool], latest: int) -> list[int]:
    """The numbers of the segments that remain for records up to the time of an offset."""
    store, parts = planted(stamps)
    remaining = without_later(SegmentObjects(store), parts, (FIRST_TIMESTAMP_MS + latest) * 1000)
    return [part.start // RECORDS for part in remaining]


@pytest.mark.parametrize("latest", range(-1, 95, 3))
def test_no_segment_with_records_of_the_time_is_left_out(latest: int) -> None:
    needed = [number for number in range(9) if number * RECORDS <= latest]
    assert kept([True] * 9, latest) == sorted({*needed, 8})


def test_the_bound_itself_is_included_to_the_microsecond() -> None:
    store, parts = planted([True] * 4)
    exact_us = (FIRST_TIMESTAMP_MS + 2 * RECORDS) * 1000
    objects = SegmentObjects(store)
    assert [part.start for part in without_later(objects, parts, exact_us)] == [0, 10, 20, 30]
    assert [part.start for part in without_later(objects, parts, exact_us - 1)] == [0, 10, 30]


def test_times_of_producers_say_nothing() -> None:
    assert kept([False] * 4, 0) == [0, 1, 2, 3]


def test_what_comes_before_the_topic_was_changed_stays() -> None:
    assert kept([False, True, False, True, True, True], 0) == [0, 1, 2, 5]


def test_what_comes_before_a_gap_stays() -> None:
    store, parts = planted([True] * 6)
    # Whatever was in the fourth segment may have begun in the third.
    with_gap = [*parts[:3], *parts[4:]]
    remaining = without_later(SegmentObjects(store), with_gap, FIRST_TIMESTAMP_MS * 1000 - 1)
    assert [part.start // RECORDS for part in remaining] == [0, 1, 2, 5]


def test_a_topic_that_went_back_to_times_of_producers_stays_whole() -> None:
    assert kept([True, True, True, False], 0) == [0, 1, 2, 3]


def test_one_segment_is_not_asked_at_all() -> None:
    store, parts = planted([True])
    assert without_later(SegmentObjects(store), parts, 0) == parts
    assert without_later(SegmentObjects(store), [], 0) == []
    assert store.asked == []


def test_few_segments_are_asked_where_few_are_later() -> None:
    store, parts = planted([True] * 20)
    without_later(SegmentObjects(store), parts, (FIRST_TIMESTAMP_MS + 175) * 1000)
    assert len(store.asked) <= 6
