"""Which part of a log is dirty, when it is due, what becomes one segment."""

from __future__ import annotations

from crabka.config.topic import TopicConfig
from crabka.log.cleaner.plan import (
    MAX_OFFSET_DISTANCE,
    CleaningRange,
    SegmentFacts,
    first_uncleanable_offset,
    group_segments,
)


def facts(base: int, end: int, size: int = 100, index_bytes: int = 0, timestamp: int = 0) -> SegmentFacts:
    return SegmentFacts(base, end, size, index_bytes, 0, timestamp)


THREE = [facts(0, 10, timestamp=100), facts(10, 20, timestamp=300), facts(20, 30, timestamp=200)]


def test_whole_segments_below_the_limit_are_cleanable() -> None:
    def end(limit: int) -> int:
        return first_uncleanable_offset(THREE, 0, limit=limit, min_lag_ms=0, now_ms=0)

    assert [end(limit) for limit in (0, 9, 10, 19, 30, 99)] == [0, 0, 10, 10, 30, 30]
    assert first_uncleanable_offset([], 5, limit=9, min_lag_ms=0, now_ms=0) == 5


def test_a_young_segment_and_all_after_it_wait() -> None:
    def end(first_dirty: int, now_ms: int) -> int:
        return first_uncleanable_offset(THREE, first_dirty, limit=99, min_lag_ms=100, now_ms=now_ms)

    assert [end(0, now_ms) for now_ms in (199, 200, 399, 400)] == [0, 10, 10, 30]
    # What is clean already does not hold up the rest.
    assert end(20, 350) == 30


def test_the_dirty_ratio_decides() -> None:
    config = TopicConfig(min_cleanable_dirty_ratio=0.5)
    assert not CleaningRange(0, 10, 50, 50).is_due(config, 0)
    assert CleaningRange(0, 10, 49, 51).is_due(config, 0)
    assert not CleaningRange(0, 10, 0, 0).is_due(TopicConfig(min_cleanable_dirty_ratio=0), 0)


def test_what_waits_too_long_is_due_at_any_ratio() -> None:
    config = TopicConfig(max_compaction_lag_ms=1000)
    part = CleaningRange(0, 10, 99, 1, oldest_dirty_ms=5000)
    assert not part.is_due(config, 6000)
    assert part.is_due(config, 6001)
    assert not part._replace(oldest_dirty_ms=-1).is_due(config, 6001)
    assert not part._replace(cleanable_bytes=0).is_due(config, 6001)


def bases(groups: list[list[SegmentFacts]]) -> list[list[int]]:
    return [[each.base_offset for each in group] for group in groups]


def test_neighbours_are_grouped_up_to_the_segment_size() -> None:
    segments = [facts(base, base + 10) for base in range(0, 50, 10)]
    assert bases(group_segments(segments, max_bytes=250, max_index_bytes=1000)) == [[0, 10], [20, 30], [40]]
    assert bases(group_segments(segments, max_bytes=50, max_index_bytes=1000)) == [[0], [10], [20], [30], [40]]
    assert group_segments([], max_bytes=50, max_index_bytes=1000) == []


def test_neighbours_are_grouped_up_to_the_index_size() -> None:
    by_offset = [facts(base, base + 10, index_bytes=60) for base in range(0, 30, 10)]
    assert bases(group_segments(by_offset, max_bytes=9999, max_index_bytes=120)) == [[0, 10], [20]]
    by_time = [each._replace(offset_index_bytes=0, time_index_bytes=60) for each in by_offset]
    assert bases(group_segments(by_time, max_bytes=9999, max_index_bytes=120)) == [[0, 10], [20]]


def test_offsets_that_an_index_cannot_express_are_not_grouped() -> None:
    far = MAX_OFFSET_DISTANCE + 1
    segments = [facts(0, 10), facts(10, far + 1), facts(far + 1, far + 9, size=0)]
    assert bases(group_segments(segments, max_bytes=9999, max_index_bytes=99)) == [[0], [10, far + 1]]
    assert bases(group_segments([facts(0, 10), facts(10, far)], max_bytes=999, max_index_bytes=99)) == [[0, 10]]
