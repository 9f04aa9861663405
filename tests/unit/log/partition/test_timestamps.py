from __future__ import annotations

from crabka.config.topic import TopicConfig
from crabka.log.partition.timestamps import find_by_timestamp, find_max_timestamp
from crabka.log.segment.segment import Segment
from crabka.log.segment.segments import Segments
from tests.support.storage.small import LOG_PATH, NOW_MS, make_batch, make_context

HOUR = 3_600_000

MAX_BYTES = 1 << 20


def segments(*content: tuple[int, list[int]]) -> Segments:
    """Return sealed segments: base offset, and the first timestamps of their batches of two records."""
    context = make_context()
    context.fs.makedirs(LOG_PATH)
    found = []
    for base, timestamps in content:
        segment = Segment(context, LOG_PATH, base, 0)
        segment.activate(segment.empty_indexes(), TopicConfig(index_interval_bytes=1), NOW_MS)
        for index, timestamp in enumerate(timestamps):
            batch = make_batch(2, timestamp=timestamp, base_offset=base + 2 * index, leader_epoch=3)
            segment.append([batch], len(batch), base + 2 * index + 1, timestamp + 1)
        segment.seal()
        found.append(segment)
    return Segments(found)


def test_the_first_record_that_is_not_older_is_found() -> None:
    found = segments((0, [100, 200, 150]), (6, [300, 250]))
    for timestamp, offset in ((0, 0), (100, 0), (101, 1), (102, 2), (200, 2), (202, 6), (301, 7)):
        answer = find_by_timestamp(found, timestamp, 0, MAX_BYTES)
        assert answer is not None
        assert answer.offset == offset, timestamp
        assert answer.leader_epoch == 3
    assert find_by_timestamp(found, 302, 0, MAX_BYTES) is None


def test_records_below_the_start_do_not_count() -> None:
    answer = find_by_timestamp(segments((0, [100, 200, 150])), 100, 3, MAX_BYTES)
    assert answer is not None
    assert (answer.offset, answer.timestamp) == (3, 201)


def test_an_empty_segment_does_not_end_the_search() -> None:
    answer = find_by_timestamp(segments((0, []), (6, [HOUR])), 5, 0, MAX_BYTES)
    assert answer is not None
    assert answer.offset == 6


def test_the_largest_timestamp_may_lie_in_any_segment() -> None:
    answer = find_max_timestamp(segments((0, [100, 900, 150]), (6, [300, 250])), MAX_BYTES)
    assert answer is not None
    assert (answer.timestamp, answer.offset) == (901, 3)
    assert find_max_timestamp(segments((0, [])), MAX_BYTES) is None
