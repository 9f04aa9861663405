"""States that should have passed."""

from __future__ import annotations

import uuid
from dataclasses import replace

from crabka.remote.removal_notice import COMMITTED, new_removal_notice
from crabka.remote.scrub import TierFaultKind, TierHistory, check_states
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tests.support.tiers.planted import ORDERS, STORED_MS, two_segments, update

GRACE_MS = 60_000
LATER_MS = STORED_MS + GRACE_MS


def kinds(history: TierHistory, now_ms: int = LATER_MS, topic_ids: set[uuid.UUID] | None = None) -> list[TierFaultKind]:
    return [fault.kind for fault in check_states(history, now_ms=now_ms, grace_ms=GRACE_MS, topic_ids=topic_ids)]


def started() -> tuple[TierHistory, RemoteLogSegmentMetadata]:
    history = TierHistory()
    (segment, _) = two_segments().segments
    history.apply(replace(segment, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED))
    return history, segment


def test_finished_segments_are_fine_for_ever() -> None:
    assert kinds(two_segments().history, now_ms=10**15, topic_ids={ORDERS.topic_id}) == []


def test_a_copy_that_does_not_end_is_stuck_after_the_grace_period() -> None:
    history, _ = started()
    assert kinds(history, LATER_MS - 1) == []
    assert kinds(history) == [TierFaultKind.STUCK_COPY]


def test_a_deletion_that_does_not_end_is_stuck_after_the_grace_period() -> None:
    history, segment = started()
    history.apply(update(segment, RemoteLogSegmentState.DELETE_SEGMENT_STARTED, at_ms=STORED_MS + 5))
    assert kinds(history) == []
    assert kinds(history, LATER_MS + 5) == [TierFaultKind.STUCK_DELETE]
    history.apply(update(segment, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED))
    assert kinds(history, LATER_MS + 5) == []


def test_the_deletion_of_a_partition_can_be_stuck() -> None:
    history = TierHistory()
    history.apply(
        RemotePartitionDeleteMetadata(
            topic_id_partition=ORDERS,
            state=RemotePartitionDeleteState.DELETE_PARTITION_MARKED,
            event_timestamp_ms=STORED_MS,
            broker_id=1,
        )
    )
    assert kinds(history, LATER_MS - 1) == []
    (fault,) = check_states(history, now_ms=LATER_MS + 3 * 3_600_000, grace_ms=GRACE_MS)
    assert (fault.kind, fault.detail) == (TierFaultKind.STUCK_DELETE, "is DELETE_PARTITION_MARKED since 3 h")


def test_segments_of_a_topic_that_is_gone_are_abandoned() -> None:
    history = two_segments().history
    assert kinds(history, topic_ids=set()) == [TierFaultKind.ABANDONED_SEGMENT] * 2
    assert kinds(history, now_ms=LATER_MS - 1, topic_ids=set()) == []


def test_what_the_history_refused_is_reported() -> None:
    history, segment = started()
    history.apply(update(segment, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED))
    assert kinds(history, now_ms=0) == [TierFaultKind.ILLEGAL_STATE]


def test_a_removal_of_all_segments_that_does_not_end_is_stuck() -> None:
    history = TierHistory()
    notice = new_removal_notice(ORDERS, uuid.UUID(int=9), broker_id=1, now_ms=STORED_MS)
    history.apply(notice)
    history.apply(replace(update(notice, RemoteLogSegmentState.COPY_SEGMENT_FINISHED), custom_metadata=COMMITTED))
    assert kinds(history, LATER_MS - 1) == []
    assert kinds(history, LATER_MS + 5) == [TierFaultKind.STUCK_DELETE]
