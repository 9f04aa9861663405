from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql import datasource

from crabka.spark.plan.filters import NO_FILTERS, PushedFilters, pushed_filters

NOON = datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
NOON_US = 1_767_268_800_000_001


def pushed(kind: str, column: str, value: object) -> PushedFilters:
    return pushed_filters([getattr(datasource, kind)((column,), value)])


def test_topics_and_partitions_are_chosen() -> None:
    both = pushed_filters(
        [
            datasource.In(("topic",), ("a", "b", None)),
            datasource.EqualTo(("topic",), "b"),
            datasource.EqualNullSafe(("PARTITION",), 3),
        ]
    )
    assert both.allows("b", 3)
    assert not both.allows("a", 3)
    assert not both.allows("b", 4)
    assert NO_FILTERS.allows("x", 9)


@pytest.mark.parametrize(
    ("kind", "value", "low", "high"),
    [
        ("EqualTo", 5, 5, 5),
        ("GreaterThan", 5, 6, None),
        ("GreaterThanOrEqual", 5, 5, None),
        ("LessThan", 5, None, 4),
        ("LessThanOrEqual", 5, None, 5),
        ("In", (9, 4, 7), 4, 9),
    ],
)
def test_offsets_are_bounded(kind: str, value: object, low: int | None, high: int | None) -> None:
    bounds = pushed(kind, "offset", value)
    assert bounds.min_offset == (0 if low is None else low)
    assert bounds.max_offset == (NO_FILTERS.max_offset if high is None else high)


def test_times_are_exact_to_the_microsecond() -> None:
    assert pushed("GreaterThanOrEqual", "timestamp", NOON).min_timestamp_us == NOON_US
    assert pushed("GreaterThan", "timestamp", NOON).min_timestamp_us == NOON_US + 1
    assert pushed("LessThan", "timestamp", NOON).max_timestamp_us == NOON_US - 1
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))
    assert pushed("EqualTo", "timestamp", elsewhere).min_timestamp_us == NOON_US


def test_segments_are_judged_by_their_latest_record() -> None:
    bounds = pushed("GreaterThanOrEqual", "timestamp", NOON)
    assert (bounds.has_earliest_time, bounds.has_latest_time) == (True, False)
    assert pushed("LessThan", "timestamp", NOON).has_latest_time
    assert not bounds.may_hold(NOON_US // 1000)  # one microsecond too early
    assert bounds.may_hold(NOON_US // 1000 + 1)
    assert bounds.may_hold(-1)  # not known


def test_what_is_not_understood_prunes_nothing() -> None:
    filters = [
        datasource.Not(datasource.EqualTo(("offset",), 5)),
        datasource.IsNotNull(("offset",)),
        datasource.StringStartsWith(("topic",), "a"),
        datasource.EqualTo(("headers", "key"), "x"),
        datasource.EqualTo(("value",), b"x"),
        datasource.GreaterThan(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001 - that is the point
        datasource.GreaterThan(("offset",), None),
        datasource.In(("partition",), (1, "2")),
    ]
    assert pushed_filters(filters) == NO_FILTERS
