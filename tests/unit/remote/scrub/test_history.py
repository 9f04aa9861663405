"""Events from the first to the last, and those that are refused."""

from __future__ import annotations

import uuid
from dataclasses import replace

from crabka.remote.removal_notice import COMMITTED, new_removal_notice
from crabka.remote.scrub import TierFaultKind, TierHistory
from crabka.remote.segments import (
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tests.support.tiers.planted import ORDERS, two_segments, update

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

FIRST, SECOND = (replace(segment, state=STARTED) for segment in two_segments().segments)


def history_of(*states: RemoteLogSegmentState) -> TierHistory:
    history = TierHistory()
    history.apply(FIRST)
    for state in states:
        history.apply(update(FIRST, state))
    return history


def refused(history: TierHistory) -> list[tuple[TierFaultKind, str]]:
    return [(fault.kind, fault.detail) for fault in history.faults]


def partition_delete(state: RemotePartitionDeleteState) -> RemotePartitionDeleteMetadata:
    return RemotePartitionDeleteMetadata(topic_id_partition=ORDERS, state=state, event_timestamp_ms=9, broker_id=1)


def test_a_whole_life_leaves_the_memory_of_it() -> None:
    history = history_of(FINISHED, DELETING, DELETED)
    assert not history.segments
    assert history.is_gone(FIRST.segment_id.id)
    assert not history.is_gone(SECOND.segment_id.id)
    assert (refused(history), history.event_count) == ([], 4)
    assert history.knows_topic(ORDERS.topic_id)
    assert not history.knows_topic(SECOND.segment_id.id)


def test_only_finished_segments_can_be_read() -> None:
    history = history_of(FINISHED)
    history.apply(SECOND)
    assert [segment.segment_id for segment in history.finished()] == [FIRST.segment_id]
    assert set(history.segments) == {FIRST.segment_id.id, SECOND.segment_id.id}


def test_repeated_events_are_fine() -> None:
    history = history_of(FINISHED, FINISHED, DELETING, DELETING, DELETED, DELETED)
    history.apply(SECOND)
    history.apply(SECOND)
    assert refused(history) == []


def test_an_illegal_step_is_noted_and_changes_nothing() -> None:
    history = history_of(DELETED)
    assert refused(history) == [
        (TierFaultKind.ILLEGAL_STATE, "cannot go from COPY_SEGMENT_STARTED to DELETE_SEGMENT_FINISHED")
    ]
    assert history.segments[FIRST.segment_id.id].state is STARTED


def test_a_step_of_an_unknown_segment_is_illegal() -> None:
    history = TierHistory()
    history.apply(update(FIRST, FINISHED))
    history.apply(update(SECOND, DELETED))
    assert refused(history) == [
        (TierFaultKind.ILLEGAL_STATE, "COPY_SEGMENT_FINISHED of a segment that was never added"),
        (TierFaultKind.ILLEGAL_STATE, "DELETE_SEGMENT_FINISHED of a segment that was never added"),
    ]


def test_a_segment_added_twice_with_other_content_is_illegal() -> None:
    history = history_of()
    history.apply(replace(FIRST, end_offset=100))
    ((kind, _),) = refused(history)
    assert kind is TierFaultKind.ILLEGAL_STATE


def test_the_late_words_of_an_old_leader_are_only_a_note() -> None:
    history = history_of(DELETING, FINISHED, DELETED, FINISHED)
    history.apply(FIRST)
    assert refused(history) == [
        (TierFaultKind.LATE_EVENT, "cannot go from DELETE_SEGMENT_STARTED to COPY_SEGMENT_FINISHED"),
        (TierFaultKind.LATE_EVENT, "got COPY_SEGMENT_FINISHED after its deletion"),
        (TierFaultKind.LATE_EVENT, "was added again after its deletion"),
    ]
    assert not list(history.finished())


def test_the_deletion_of_a_partition_is_followed() -> None:
    history = history_of(FINISHED)
    history.apply(partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED))
    assert set(history.partition_deletions) == {ORDERS}
    history.apply(SECOND)
    assert [fault.kind for fault in history.faults] == [TierFaultKind.LATE_EVENT]
    history.apply(partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_STARTED))
    history.apply(update(FIRST, DELETING))
    history.apply(update(FIRST, DELETED))
    history.apply(partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED))
    assert not history.partition_deletions
    assert len(history.faults) == 1


def test_segments_that_a_finished_deletion_left_are_noted() -> None:
    history = history_of(FINISHED)
    for state in RemotePartitionDeleteState:
        history.apply(partition_delete(state))
    assert refused(history) == [
        (
            TierFaultKind.ILLEGAL_STATE,
            "was COPY_SEGMENT_FINISHED when the deletion of its partition ended",
        )
    ]
    assert history.is_gone(FIRST.segment_id.id)


def test_a_deletion_out_of_order_is_noted() -> None:
    history = history_of(FINISHED)
    history.apply(partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED))
    ((kind, detail),) = refused(history)
    assert kind is TierFaultKind.ILLEGAL_STATE
    assert detail == "cannot go from none to DELETE_PARTITION_FINISHED"


def test_a_deletion_that_begins_again_after_a_crash_is_no_fault() -> None:
    history = history_of()
    history.apply(partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED))
    history.apply(partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_STARTED))
    history.apply(partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED))
    assert [kind for kind, _ in refused(history)] == [TierFaultKind.LATE_EVENT]
    assert history.partition_deletions[ORDERS].state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED


def test_a_notice_is_no_segment_and_keeps_others_out_until_it_is_over() -> None:
    history = history_of(FINISHED)
    notice = new_removal_notice(ORDERS, uuid.UUID(int=9), broker_id=1, now_ms=5)
    history.apply(notice)
    history.apply(replace(update(notice, FINISHED), custom_metadata=COMMITTED))
    history.apply(SECOND)
    assert refused(history) == [(TierFaultKind.LATE_EVENT, "all segments of its partition are being removed")]
    assert [segment.segment_id for segment in history.finished()] == [FIRST.segment_id]
    history.apply(update(notice, DELETING))
    history.apply(update(notice, DELETED))
    history.apply(SECOND)
    assert len(history.segments) == 2
