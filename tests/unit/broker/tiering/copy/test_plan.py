"""Which segments are copied next."""

from __future__ import annotations

from dataclasses import dataclass

from crabka.broker.tiering.copy.plan import (
    NOTHING_COPIED,
    copied_offset,
    highest_remote_offset,
    plan_copy,
    remote_log_start,
)
from crabka.formats.leader_epochs import EpochLineage
from tests.support.tiers.segment_metadata import DELETING, STARTED, ListedSegments, remote_segment


@dataclass(frozen=True)
class Sealed:
    base_offset: int
    end_offset: int
    size_bytes: int = 100
    is_flushed: bool = True


THREE = [Sealed(0, 9), Sealed(10, 19), Sealed(20, 29)]


def test_nothing_copied_is_reported_as_minus_one() -> None:
    lineage = EpochLineage([(0, 0)], 30)
    assert highest_remote_offset(lineage, ListedSegments([])) == NOTHING_COPIED
    assert copied_offset(lineage, ListedSegments([]), 0) == NOTHING_COPIED


def test_the_newest_epoch_in_the_tier_reports_how_much_is_copied() -> None:
    lineage = EpochLineage([(0, 0), (3, 20), (4, 40)], 60)
    tier = ListedSegments([remote_segment(0, 19), remote_segment(20, 29, epochs=[(3, 20)])])
    assert copied_offset(lineage, tier, 0) == 29


def test_what_was_copied_beyond_the_end_of_an_epoch_does_not_count() -> None:
    # An unclean election cut the log at 50; the old leader had copied up to 99.
    lineage = EpochLineage([(0, 0), (1, 50)], 80)
    tier = ListedSegments([remote_segment(0, 99)])
    assert highest_remote_offset(lineage, tier) == 49
    assert copied_offset(lineage, tier, 0) == 49


def test_a_segment_that_was_only_begun_claims_no_offset() -> None:
    lineage = EpochLineage([(0, 0)], 30)
    tier = ListedSegments([remote_segment(0, 9), remote_segment(10, 19, state=STARTED)])
    assert copied_offset(lineage, tier, 0) == 9


def test_a_highest_offset_without_a_segment_does_not_count_above_the_local_start() -> None:
    # The late end of an abandoned upload raised the highest offset before it was deleted.
    lineage = EpochLineage([(0, 0)], 40)
    tier = ListedSegments(
        [remote_segment(0, 9), remote_segment(10, 19, state=DELETING)],
        highest={0: 19},
    )
    assert highest_remote_offset(lineage, tier) == 19
    assert copied_offset(lineage, tier, 0) == 9


def test_what_retention_deleted_below_the_local_start_still_counts_as_copied() -> None:
    lineage = EpochLineage([(0, 20)], 40)
    assert copied_offset(lineage, ListedSegments([], highest={0: 19}), 20) == 19


def test_overlapping_segments_of_several_leaders_count_together() -> None:
    lineage = EpochLineage([(0, 0), (1, 15)], 60)
    tier = ListedSegments([remote_segment(0, 14), remote_segment(10, 29, epochs=[(0, 10), (1, 15)])])
    assert copied_offset(lineage, tier, 0) == 29


def test_sealed_segments_below_the_stable_offset_are_copied_in_order() -> None:
    assert plan_copy(THREE, copied_offset=-1, log_start_offset=0, stable_offset=30) == THREE
    assert plan_copy(THREE, copied_offset=9, log_start_offset=0, stable_offset=30) == THREE[1:]


def test_a_segment_that_is_not_wholly_replicated_and_decided_is_not_copied() -> None:
    assert plan_copy(THREE, copied_offset=-1, log_start_offset=0, stable_offset=29) == THREE[:2]
    assert plan_copy(THREE, copied_offset=-1, log_start_offset=0, stable_offset=5) == []


def test_nothing_is_copied_before_what_comes_before_it() -> None:
    segments = [Sealed(0, 9), Sealed(10, 19, is_flushed=False), Sealed(20, 29)]
    assert plan_copy(segments, copied_offset=-1, log_start_offset=0, stable_offset=30) == segments[:1]


def test_segments_below_the_log_start_are_not_copied() -> None:
    assert plan_copy(THREE, copied_offset=-1, log_start_offset=10, stable_offset=30) == THREE[1:]
    assert plan_copy(THREE, copied_offset=-1, log_start_offset=15, stable_offset=30) == THREE[1:]


def test_a_segment_is_copied_whole_if_part_of_it_is_missing() -> None:
    # Another leader rolled at 15.
    assert plan_copy(THREE, copied_offset=14, log_start_offset=0, stable_offset=30) == THREE[1:]


def test_the_log_begins_at_the_oldest_segment_of_the_oldest_epoch() -> None:
    lineage = EpochLineage([(0, 0), (1, 30)], 60)
    segments = [remote_segment(10, 29), remote_segment(30, 39, epochs=[(1, 30)])]
    assert remote_log_start(lineage, segments, local_start=40) == 10


def test_the_log_begins_at_the_local_start_if_the_tier_begins_later_or_has_nothing() -> None:
    lineage = EpochLineage([(0, 0)], 60)
    assert remote_log_start(lineage, [], local_start=20) == 20
    assert remote_log_start(lineage, [remote_segment(30, 39)], local_start=20) == 20
    foreign = remote_segment(0, 9, epochs=[(9, 0)])
    assert remote_log_start(lineage, [foreign], local_start=20) == 20


def test_the_log_does_not_begin_before_its_first_known_epoch() -> None:
    lineage = EpochLineage([(1, 15)], 60)
    assert remote_log_start(lineage, [remote_segment(10, 19, epochs=[(1, 10)])], local_start=40) == 15
