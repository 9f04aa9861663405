"""Which remote segments go."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.expire.retention_plan import (
    LogExtent,
    RemovalReason,
    RetentionLimits,
    RetentionPlan,
    plan_retention,
)
from crabka.formats.leader_epochs import EpochLineage
from crabka.log.partition.tierable import SegmentExtent
from crabka.remote.segments import RemoteLogSegmentMetadata
from tests.support.tiers.segment_metadata import DELETING, STARTED, remote_segment

NOW_MS = 10_000
LINEAGE = EpochLineage([(0, 0)], 100)
EXTENT = LogExtent(log_start_offset=0, high_watermark=100)


def plan(
    segments: list[RemoteLogSegmentMetadata],
    *,
    lineage: EpochLineage = LINEAGE,
    extent: LogExtent = EXTENT,
    retention_ms: int = -1,
    retention_bytes: int = -1,
    in_flight: set[RemoteLogSegmentMetadata] | None = None,
) -> RetentionPlan:
    return plan_retention(
        lineage,
        segments,
        extent,
        RetentionLimits(retention_ms=retention_ms, retention_bytes=retention_bytes),
        now_ms=NOW_MS,
        in_flight={segment.segment_id for segment in in_flight or set()},
    )


def starts(planned: RetentionPlan) -> list[int]:
    return [removal.segment.start_offset for removal in planned.removals]


def reasons(planned: RetentionPlan) -> list[RemovalReason]:
    return [removal.reason for removal in planned.removals]


def test_without_limits_everything_stays() -> None:
    planned = plan([remote_segment(0, 9), remote_segment(10, 19)])
    assert planned == RetentionPlan()


def test_old_segments_go_and_the_log_starts_behind_them() -> None:
    segments = [remote_segment(0, 9, newest_ms=1000), remote_segment(10, 19, newest_ms=9000)]
    planned = plan(segments, retention_ms=5000)
    assert (starts(planned), reasons(planned), planned.log_start_offset) == ([0], [RemovalReason.TIME], 10)


def test_a_segment_is_old_from_the_millisecond_on_that_its_newest_record_is() -> None:
    assert starts(plan([remote_segment(0, 9, newest_ms=5000)], retention_ms=5000)) == [0]
    assert starts(plan([remote_segment(0, 9, newest_ms=5001)], retention_ms=5000)) == []


def test_an_unknown_timestamp_is_not_old() -> None:
    planned = plan([remote_segment(0, 9, newest_ms=-1), remote_segment(10, 19, newest_ms=1)], retention_ms=0)
    # It also keeps what comes after it: a log has no holes.
    assert planned.removals == ()
    assert planned.log_start_offset is None
    by_size = plan([remote_segment(0, 9, newest_ms=-1)], retention_ms=0, retention_bytes=0)
    assert reasons(by_size) == [RemovalReason.SIZE]


def test_the_first_segment_that_stays_keeps_all_behind_it() -> None:
    segments = [
        remote_segment(0, 9, newest_ms=1000),
        remote_segment(10, 19, newest_ms=9999),
        remote_segment(20, 29, newest_ms=1000),
    ]
    planned = plan(segments, retention_ms=5000)
    assert (starts(planned), planned.log_start_offset) == ([0], 10)


def test_as_many_segments_go_as_leave_at_least_the_size() -> None:
    segments = [remote_segment(start, start + 9) for start in (0, 10, 20)]
    assert starts(plan(segments, retention_bytes=150)) == [0]
    assert starts(plan(segments, retention_bytes=100)) == [0, 10]
    assert starts(plan(segments, retention_bytes=0)) == [0, 10, 20]
    assert starts(plan(segments, retention_bytes=300)) == []


def test_what_only_the_local_disk_has_is_part_of_the_size() -> None:
    extent = LogExtent(log_start_offset=0, high_watermark=100, local=[SegmentExtent(30, 99, 250)])
    segments = [remote_segment(start, start + 9) for start in (0, 10, 20)]
    assert starts(plan(segments, extent=extent, retention_bytes=400)) == [0]


def test_what_is_not_committed_makes_nothing_go() -> None:
    extent = LogExtent(log_start_offset=0, high_watermark=35, local=[SegmentExtent(30, 99, 5000)])
    segments = [remote_segment(start, start + 9) for start in (0, 10, 20)]
    assert starts(plan(segments, extent=extent, retention_bytes=200)) == [0]


def test_what_the_local_disk_still_has_counts_once() -> None:
    segments = [remote_segment(start, start + 9) for start in (0, 10, 20)]
    # The leader rolled at other offsets than those before it, and 20 to 24 lie in both places.
    local = [SegmentExtent(10, 19, 100), SegmentExtent(20, 24, 50), SegmentExtent(25, 39, 150)]
    extent = LogExtent(log_start_offset=0, high_watermark=100, local=local)
    assert starts(plan(segments, extent=extent, retention_bytes=301)) == []
    assert starts(plan(segments, extent=extent, retention_bytes=300)) == [0]


def test_what_two_leaders_copied_counts_once() -> None:
    twice = [remote_segment(start, start + 9, number=number) for number, start in enumerate((0, 10, 10, 20, 20))]
    assert starts(plan(twice, retention_bytes=201)) == []
    planned = plan(twice, retention_bytes=100)
    # A copy of what goes does not stay.
    assert (starts(planned), planned.log_start_offset) == ([0, 10, 10], 20)


def test_local_segments_that_the_log_start_leaves_behind_are_not_part_of_what_stays() -> None:
    # Another leader began to copy at 10: what lies before is on this disk alone, and goes with the log start.
    extent = LogExtent(log_start_offset=0, high_watermark=100, local=[SegmentExtent(0, 9, 500)])
    segments = [remote_segment(10, 19), remote_segment(20, 29)]
    assert starts(plan(segments, extent=extent, retention_bytes=200)) == []
    assert starts(plan(segments, extent=extent, retention_bytes=100)) == [10]


def test_what_goes_by_time_is_not_taken_from_the_size_again() -> None:
    segments = [remote_segment(0, 9, newest_ms=1000), *(remote_segment(s, s + 9, newest_ms=9999) for s in (10, 20))]
    planned = plan(segments, retention_ms=5000, retention_bytes=200)
    assert (starts(planned), reasons(planned)) == ([0], [RemovalReason.TIME])


def test_a_segment_that_spans_epochs_counts_once() -> None:
    lineage = EpochLineage([(0, 0), (1, 5), (2, 12)], 100)
    spanning = remote_segment(0, 19, epochs=[(0, 0), (1, 5), (2, 12)])
    planned = plan([spanning, remote_segment(20, 29, epochs=[(2, 20)])], lineage=lineage, retention_bytes=150)
    # Were it counted once per epoch, the surplus would be large enough for it to go.
    assert starts(planned) == []
    assert starts(plan([spanning], lineage=lineage, retention_bytes=0)) == [0]


def test_copies_that_failed_or_are_on_their_way_count_for_nothing() -> None:
    segments = [
        remote_segment(0, 9),
        remote_segment(0, 9, number=1, state=STARTED, size=5000),
        remote_segment(10, 19, number=2, state=DELETING, size=5000),
        remote_segment(10, 19),
    ]
    planned = plan(segments, retention_bytes=200)
    assert reasons(planned) == [RemovalReason.UNFINISHED]
    assert planned.log_start_offset is None


def test_deletions_that_were_begun_are_finished_whatever_the_history() -> None:
    foreign = remote_segment(0, 9, epochs=[(9, 0)], state=DELETING)
    planned = plan([foreign])
    assert (starts(planned), reasons(planned)) == ([0], [RemovalReason.UNFINISHED])


def test_what_this_broker_works_on_is_left_alone() -> None:
    begun = remote_segment(0, 9, state=DELETING)
    done = remote_segment(10, 19, newest_ms=1)
    assert plan([begun, done], retention_ms=0, in_flight={begun, done}).removals == ()


def test_segments_below_the_log_start_go() -> None:
    lineage = EpochLineage([(0, 20)], 100)
    extent = LogExtent(log_start_offset=20, high_watermark=100)
    segments = [remote_segment(0, 9), remote_segment(10, 19), remote_segment(20, 29)]
    planned = plan(segments, lineage=lineage, extent=extent)
    assert (starts(planned), set(reasons(planned))) == ([0, 10], {RemovalReason.LOG_START})
    # The log start is there already.
    assert planned.log_start_offset is None


def test_what_lies_below_the_log_start_makes_nothing_else_go_by_size() -> None:
    lineage = EpochLineage([(0, 20)], 100)
    extent = LogExtent(log_start_offset=20, high_watermark=100)
    segments = [remote_segment(start, start + 9) for start in (0, 10, 20, 30)]
    planned = plan(segments, lineage=lineage, extent=extent, retention_bytes=200)
    assert (starts(planned), planned.log_start_offset) == ([0, 10], None)


def test_a_segment_with_records_from_the_log_start_on_stays() -> None:
    lineage = EpochLineage([(0, 15)], 100)
    extent = LogExtent(log_start_offset=15, high_watermark=100)
    assert starts(plan([remote_segment(0, 9), remote_segment(10, 19)], lineage=lineage, extent=extent)) == [0]


def test_segments_of_epochs_before_the_log_go_as_unreferenced() -> None:
    lineage = EpochLineage([(5, 40)], 100)
    extent = LogExtent(log_start_offset=40, high_watermark=100)
    segments = [
        remote_segment(0, 9, epochs=[(0, 0)]),
        remote_segment(10, 39, epochs=[(0, 10), (4, 30)]),
        remote_segment(30, 45, epochs=[(4, 30), (5, 40)]),
    ]
    planned = plan(segments, lineage=lineage, extent=extent)
    assert (starts(planned), set(reasons(planned))) == ([0, 10], {RemovalReason.UNREFERENCED})


def test_a_segment_of_a_history_that_was_cut_off_neither_goes_nor_keeps_others() -> None:
    # Epoch 0 ended at 50, an old leader had copied up to 59.
    lineage = EpochLineage([(0, 0), (1, 50)], 100)
    segments = [
        remote_segment(0, 39, newest_ms=1),
        remote_segment(40, 59, newest_ms=1),
        remote_segment(50, 69, epochs=[(1, 50)], newest_ms=1),
    ]
    planned = plan(segments, lineage=lineage, retention_ms=0)
    assert (starts(planned), planned.log_start_offset) == ([0, 50], 70)


def test_nothing_above_the_high_watermark_goes() -> None:
    extent = LogExtent(log_start_offset=0, high_watermark=15)
    segments = [remote_segment(0, 9, newest_ms=1), remote_segment(10, 19, newest_ms=1)]
    planned = plan(segments, extent=extent, retention_ms=0)
    assert (starts(planned), planned.log_start_offset) == ([0], 10)


def test_a_log_without_epochs_loses_nothing() -> None:
    assert plan([remote_segment(0, 9, newest_ms=1)], lineage=EpochLineage([], 0), retention_ms=0).removals == ()


def test_overlapping_segments_go_in_the_order_of_their_offsets() -> None:
    segments = [
        remote_segment(10, 29, newest_ms=1),
        remote_segment(0, 19, newest_ms=1),
        remote_segment(0, 9, newest_ms=1),
    ]
    planned = plan(segments, retention_ms=0)
    assert (starts(planned), planned.log_start_offset) == ([0, 0, 10], 30)


@pytest.mark.parametrize("retention_bytes", [0, 99])
def test_a_surplus_smaller_than_the_segment_keeps_it(retention_bytes: int) -> None:
    expected = [] if retention_bytes else [0]
    assert starts(plan([remote_segment(0, 9)], retention_bytes=retention_bytes)) == expected


def test_an_empty_log_removes_nothing_that_the_tier_holds() -> None:
    # A disk was replaced: the leader of epoch 5 has no records, and two leaders before it have copied theirs.
    segments = [
        remote_segment(0, 9, newest_ms=1),
        remote_segment(10, 19, epochs=[(0, 10), (4, 15)], newest_ms=1),
        remote_segment(20, 29, epochs=[(4, 20)], newest_ms=1),
    ]
    extent = LogExtent(log_start_offset=0, high_watermark=0)
    planned = plan(segments, lineage=EpochLineage([(5, 0)], 0), extent=extent, retention_ms=0, retention_bytes=0)
    assert (planned.removals, planned.log_start_offset) == ((), None)
    assert [segment.start_offset for segment in planned.foreign] == [0, 10, 20]
    # Nor does it when it has grown to the same offsets.
    extent = LogExtent(log_start_offset=0, high_watermark=25)
    planned = plan(segments, lineage=EpochLineage([(5, 0)], 25), extent=extent, retention_ms=0, retention_bytes=0)
    assert (planned.removals, len(planned.foreign)) == ((), 3)


def test_what_the_log_knows_is_not_foreign() -> None:
    segments = [remote_segment(0, 9), remote_segment(90, 99), remote_segment(95, 104)]
    planned = plan(segments, lineage=EpochLineage([(0, 0)], 100))
    # Only what reaches beyond its end; an old leader may have had more.
    assert [segment.start_offset for segment in planned.foreign] == [95]
    below_start = plan(
        [remote_segment(0, 9)],
        lineage=EpochLineage([(5, 40)], 100),
        extent=LogExtent(log_start_offset=40, high_watermark=100),
    )
    assert (starts(below_start), below_start.foreign) == ([0], ())
