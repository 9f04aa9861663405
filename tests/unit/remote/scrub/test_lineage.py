"""The segments of a partition as one history."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from crabka.remote.scrub.faults import TierFaultKind
from crabka.remote.scrub.lineage import PartitionBounds, check_lineage, overlaps, predecessors
from crabka.remote.segments import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.support.tiers.planted import ORDERS


def segment(number: int, start: int, end: int, *epochs: tuple[int, int]) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(ORDERS, uuid.UUID(int=number)),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=0,
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_bytes=100,
        leader_epochs=epochs or ((0, start),),
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    )


def found(
    segments: Sequence[RemoteLogSegmentMetadata],
    lineage: tuple[tuple[int, int], ...] | None,
    bounds: PartitionBounds | None = None,
) -> list[tuple[TierFaultKind, str]]:
    return [(fault.kind, fault.detail) for fault in check_lineage(ORDERS, segments, lineage, bounds)]


def test_adjacent_segments_have_no_gap() -> None:
    assert found([segment(1, 0, 9), segment(2, 10, 19), segment(3, 20, 29)], ((0, 0),)) == []
    assert found([], None) == []


def test_a_hole_between_segments_is_a_gap() -> None:
    assert found([segment(1, 0, 9), segment(3, 20, 29)], ((0, 0),)) == [
        (TierFaultKind.GAP, "offsets 10..19 are in no segment")
    ]


def test_holes_below_the_log_start_do_not_matter() -> None:
    segments = [segment(1, 0, 9), segment(3, 20, 29)]
    assert found(segments, ((0, 0),), PartitionBounds(20, 25)) == []
    assert found(segments, ((0, 0),), PartitionBounds(15, 25)) == [
        (TierFaultKind.GAP, "offsets 15..19 are in no segment")
    ]


def test_what_is_neither_on_a_disk_nor_in_the_tier_is_a_gap() -> None:
    assert found([segment(1, 10, 19)], ((0, 0),), PartitionBounds(0, 30)) == [
        (TierFaultKind.GAP, "offsets 0..9 are in no segment"),
        (TierFaultKind.GAP, "offsets 20..29 are in no segment"),
    ]
    assert found([], None, PartitionBounds(0, 30)) == [(TierFaultKind.GAP, "offsets 0..29 are in no segment")]


def test_what_is_on_disks_need_not_be_in_the_tier() -> None:
    assert found([], None, PartitionBounds(7, 7)) == []
    assert found([segment(1, 10, 19)], ((0, 0),), PartitionBounds(10, 15)) == []


def test_a_segment_that_another_leader_copied_with_other_borders_is_no_fault() -> None:
    segments = [segment(1, 0, 9), segment(2, 5, 19, (0, 5), (1, 12)), segment(3, 12, 30, (1, 12))]
    assert found(segments, ((0, 0), (1, 12))) == []


def test_offsets_that_only_a_lost_leader_had_do_not_fill_a_gap() -> None:
    # Epoch 1 began at 10 and was lost; epoch 2 began at 10 as well.
    lost = segment(2, 10, 19, (1, 10))
    kept = segment(3, 20, 29, (2, 20))
    assert found([segment(1, 0, 9), lost, kept], ((0, 0), (2, 10))) == [
        (TierFaultKind.OUTSIDE_LINEAGE, "is no part of the history any more"),
        (TierFaultKind.GAP, "offsets 10..19 are in no segment"),
    ]


def test_the_part_of_a_segment_before_a_truncation_counts() -> None:
    longer = segment(2, 10, 29, (0, 10))
    after = segment(3, 20, 40, (2, 20))
    assert found([segment(1, 0, 9), longer, after], ((0, 0), (2, 20))) == []


def test_without_the_lineage_segments_count_whatever_their_epochs() -> None:
    assert found([segment(1, 0, 9), segment(2, 10, 19, (1, 10)), segment(3, 20, 29, (2, 20))], None) == []


def test_an_epoch_that_begins_at_two_places_is_a_conflict() -> None:
    segments = [segment(1, 0, 19, (0, 0), (1, 10)), segment(2, 5, 30, (0, 5), (1, 12))]
    assert found(segments, ((0, 0), (1, 12))) == [
        (TierFaultKind.EPOCH_CONFLICT, "epoch 1 begins at 10 here and at 12 elsewhere")
    ]


def test_shared_offsets_are_found() -> None:
    a, b, c, d = segment(1, 0, 19), segment(2, 10, 29), segment(3, 12, 15), segment(4, 40, 49)
    assert overlaps([a, b, c, d]) == {a: range(10, 20), b: range(10, 20), c: range(12, 16)}


def test_the_segment_before_is_that_of_the_latest_leader_that_may_be() -> None:
    first, lost = segment(1, 0, 9), segment(2, 0, 9, (0, 0), (3, 5))
    old, new = segment(3, 10, 19, (2, 10)), segment(4, 10, 19, (4, 10))
    assert predecessors([first, lost, old, new]) == {old: first, new: lost}
    assert predecessors([first, segment(5, 11, 19)]) == {}
