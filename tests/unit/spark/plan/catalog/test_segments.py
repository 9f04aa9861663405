from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.formats.leader_epochs import NO_END
from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from crabka.spark.plan.catalog.segments import (
    TierCatalog,
    choose_parts,
    epoch_ends_of,
    is_in_history,
    segment_epochs,
)
from tests.support.tiers.segment_metadata import ORDERS, remote_segment


def test_segments_are_found_by_id_and_partition() -> None:
    segment = remote_segment(0, 9)
    second = TopicIdPartition(ORDERS.topic_id, "orders", 3)
    catalog = TierCatalog({ORDERS: [segment], second: [remote_segment(0, 9, partition=second)]})
    assert catalog.of(ORDERS.topic_id, "orders", 0) == [segment]
    assert catalog.of(ORDERS.topic_id, "orders", 1) == ()
    assert catalog.topic_ids() == {"orders": ORDERS.topic_id}
    assert catalog.partitions("orders", ORDERS.topic_id) == [0, 3]


def parts_of(segments: list[RemoteLogSegmentMetadata], ends: dict[int, int]) -> list[tuple[int, int, int]]:
    return [(part.segment.start_offset, part.start, part.end) for part in choose_parts(segments, ends)]


def test_neighbours_follow_each_other() -> None:
    segments = [remote_segment(10, 19), remote_segment(0, 9)]
    assert parts_of(segments, {0: NO_END}) == [(0, 0, 10), (10, 10, 20)]


def test_an_offset_that_was_copied_twice_is_read_once() -> None:
    segments = [remote_segment(0, 9), remote_segment(5, 14), remote_segment(7, 8), remote_segment(12, 19)]
    assert parts_of(segments, {0: NO_END}) == [(0, 0, 10), (5, 10, 15), (12, 15, 20)]


def test_a_copy_that_reaches_farther_hides_those_inside() -> None:
    segments = [remote_segment(0, 9), remote_segment(0, 29), remote_segment(10, 19)]
    assert parts_of(segments, {0: NO_END}) == [(0, 0, 30)]


def test_what_an_unclean_election_left_does_not_count() -> None:
    lost = remote_segment(0, 29, epochs=[(0, 0), (1, 20)])
    won = remote_segment(15, 40, epochs=[(0, 15), (2, 18)])
    assert parts_of([lost, won], epoch_ends_of([(0, 0), (2, 18)])) == [(0, 0, 18), (15, 18, 41)]


def test_a_segment_without_any_offset_of_the_history_is_no_second_copy() -> None:
    history = epoch_ends_of([(0, 0), (2, 18)])
    assert not is_in_history(remote_segment(18, 29, epochs=[(1, 18)]), history)
    assert is_in_history(remote_segment(10, 29, epochs=[(0, 10), (1, 18)]), history)
    assert is_in_history(remote_segment(12, 15, epochs=[(0, 12)]), history)


def test_a_segment_of_several_epochs_is_one_part() -> None:
    segment = remote_segment(0, 29, epochs=[(0, 0), (1, 10), (2, 20)])
    assert parts_of([segment], epoch_ends_of(segment.leader_epochs)) == [(0, 0, 30)]


def test_an_epoch_that_is_not_in_the_middle_of_the_history_is_a_hole() -> None:
    segment = remote_segment(0, 29, epochs=[(0, 0), (1, 10), (2, 20)])
    assert parts_of([segment], {0: 10, 2: NO_END}) == [(0, 0, 10), (0, 20, 30)]


def test_the_epochs_of_segments_are_those_of_all_of_them() -> None:
    old, new = remote_segment(0, 99, epochs=[(1, 0)]), remote_segment(0, 9, epochs=[(0, 0), (3, 5)])
    assert segment_epochs([old, new]) == [0, 1, 3]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=12))
def test_parts_have_every_offset_once_and_in_order(spans: list[tuple[int, int]]) -> None:
    segments = [remote_segment(start, start + size, number=n + 1) for n, (start, size) in enumerate(spans)]
    parts = choose_parts(segments, {0: NO_END})
    found = [offset for part in parts for offset in range(part.start, part.end)]
    assert found == sorted({offset for start, size in spans for offset in range(start, start + size + 1)})
    assert all(part.segment.start_offset <= part.start < part.end <= part.segment.end_offset + 1 for part in parts)
