"""How parts are cut; tests of the planner show what conditions leave of a plan."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crabka.spark.options.where import parse_where
from crabka.spark.plan.catalog.segments import TierPart
from crabka.spark.plan.pruning import NO_FILTERS, RowBounds, clip, row_bounds
from tests.support.tiers.planted import two_segments


@pytest.mark.parametrize(
    ("start", "end", "expected"), [(0, 99, (0, 30)), (5, 99, (5, 30)), (0, 7, (0, 7)), (5, 7, (5, 7))]
)
def test_a_part_is_cut_to_offsets(start: int, end: int, expected: tuple[int, int]) -> None:
    part = TierPart(two_segments().segments[0], 0, 30)
    cut = clip(part, start, end)
    assert (cut.start, cut.end) == expected
    assert cut.segment is part.segment


NOON = "timestamp'2026-01-01 12:00:00.000001'"
NOON_US = 1_767_268_800_000_001


def bounds_of(text: str) -> RowBounds:
    return row_bounds(parse_where(text))


def test_topics_and_partitions_are_chosen() -> None:
    both = bounds_of("topic in ('a', 'b') and topic = 'b' and partition = 3")
    assert both.allows("b", 3)
    assert not both.allows("a", 3)
    assert not both.allows("b", 4)
    assert NO_FILTERS.allows("x", 9)


def test_partitions_are_bounded() -> None:
    bounds = bounds_of("partition > 1 and partition <= 3")
    assert [partition for partition in range(6) if bounds.allows("t", partition)] == [2, 3]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("offset = 5", 5, 5),
        ("offset > 5", 6, None),
        ("offset >= 5", 5, None),
        ("offset < 5", None, 4),
        ("offset <= 5", None, 5),
        ("offset in (9, 4, 7)", 4, 9),
        ("offset != 5", None, None),
        ("offset between 3 and 8 and offset > 4", 5, 8),
    ],
)
def test_offsets_are_bounded(text: str, low: int | None, high: int | None) -> None:
    bounds = bounds_of(text)
    assert bounds.min_offset == (0 if low is None else low)
    assert bounds.max_offset == (NO_FILTERS.max_offset if high is None else high)


def test_times_are_exact_to_the_microsecond() -> None:
    assert datetime.fromtimestamp(NOON_US / 1e6, UTC).hour == 12
    assert bounds_of(f"timestamp >= {NOON}").min_timestamp_us == NOON_US
    assert bounds_of(f"timestamp > {NOON}").min_timestamp_us == NOON_US + 1
    assert bounds_of(f"timestamp < {NOON}").max_timestamp_us == NOON_US - 1


def test_segments_are_judged_by_their_latest_record() -> None:
    bounds = bounds_of(f"timestamp >= {NOON}")
    assert (bounds.has_earliest_time, bounds.has_latest_time) == (True, False)
    assert bounds_of(f"timestamp < {NOON}").has_latest_time
    assert not bounds.may_hold(NOON_US // 1000)  # one microsecond too early
    assert bounds.may_hold(NOON_US // 1000 + 1)
    assert bounds.may_hold(-1)  # not known


def test_what_excludes_single_values_prunes_nothing() -> None:
    assert bounds_of("topic != 'a' and partition != 1 and offset != 5") == NO_FILTERS
