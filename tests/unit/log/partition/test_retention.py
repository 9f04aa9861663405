from __future__ import annotations

from crabka.log.partition.retention import count_deletable, expired_by_log_start, expired_by_size, expired_by_time
from crabka.log.segment.segment import Segment
from crabka.log.segment.segments import Segments
from tests.support.storage.small import LOG_PATH, make_context


def segments(sizes: list[int], timestamps: list[int] | None = None) -> Segments:
    """Return segments of ten offsets each."""
    context = make_context()
    found = []
    for index, size in enumerate(sizes):
        segment = Segment(context, LOG_PATH, index * 10, size)
        segment.max_timestamp = timestamps[index] if timestamps else 0
        found.append(segment)
    return Segments(found)


def test_segments_go_by_age_from_the_oldest_on() -> None:
    found = segments([100, 100, 100, 100], [10, 50, 20, 90])
    assert count_deletable(found, end=40, log_end=40, expired=expired_by_time(100, 60)) == 1
    assert count_deletable(found, end=40, log_end=40, expired=expired_by_time(111, 60)) == 3
    assert count_deletable(found, end=40, log_end=40, expired=expired_by_time(1000, 60)) == 4


def test_as_many_go_by_size_as_leave_at_least_the_limit() -> None:
    found = segments([100, 100, 100])
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_size(300, 100)) == 2
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_size(300, 101)) == 1
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_size(300, 300)) == 0


def test_segments_wholly_below_the_log_start_go() -> None:
    found = segments([100, 100, 100])
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_log_start(19)) == 1
    assert count_deletable(found, end=30, log_end=30, expired=expired_by_log_start(20)) == 2


def test_nothing_above_the_high_watermark_goes() -> None:
    found = segments([100, 100, 100])
    assert count_deletable(found, end=19, log_end=30, expired=expired_by_log_start(30)) == 1


def test_an_empty_last_segment_stays() -> None:
    found = segments([100, 0])
    assert count_deletable(found, end=10, log_end=10, expired=lambda _segment, _bound: True) == 1


def test_size_counts_segments_that_go_for_another_reason() -> None:
    big, small = (Segment(make_context(), "/data", base, size) for base, size in ((0, 20), (10, 5)))
    expired = expired_by_size(110, 100)
    assert not expired(big, 10)
    assert not expired(small, 20)
