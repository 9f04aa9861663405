from __future__ import annotations

from crabka.log.segment.segment import Segment
from crabka.log.segment.segments import Segments
from tests.support.storage.small import LOG_PATH, make_context


def segments(*bases: int) -> Segments:
    context = make_context()
    return Segments([Segment(context, LOG_PATH, base, 100) for base in bases])


def test_segments_are_ordered_by_base_offset() -> None:
    found = segments(20, 0, 10)
    assert found.bases == [0, 10, 20]
    assert (found.first.base_offset, found.active.base_offset) == (0, 20)
    assert found.size_bytes == 300


def test_the_segment_of_an_offset_is_the_last_that_begins_at_or_before_it() -> None:
    found = segments(5, 10, 20)
    assert [found.floor_index(offset) for offset in (0, 5, 9, 10, 19, 20, 99)] == [0, 0, 0, 1, 1, 2, 2]
    assert [segment.base_offset for segment in found.from_offset(12)] == [10, 20]


def test_a_segment_ends_where_the_next_begins() -> None:
    found = segments(5, 10)
    assert found.upper_bound(0, 17) == 10
    assert found.upper_bound(1, 17) == 17


def test_segments_are_taken_out_at_both_ends() -> None:
    found = segments(0, 10, 20, 30)
    assert [segment.base_offset for segment in found.drop_first(1)] == [0]
    assert [segment.base_offset for segment in found.drop_from(2)] == [30]
    assert found.bases == [10, 20]
    found.add(Segment(make_context(), LOG_PATH, 40, 0))
    assert found.active is found[2]
    assert len(list(found)) == len(found) == 3
