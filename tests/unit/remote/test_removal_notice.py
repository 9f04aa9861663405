"""Notices that all segments of a partition are going."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from crabka.remote.errors import InvalidAddError, InvalidSegmentTransitionError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.removal_notice import (
    COMMITTED,
    NOTICE_EPOCH,
    is_active_notice,
    is_committed_notice,
    is_removal_notice,
    new_removal_notice,
)
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from crabka.remote_topic.serde import decode_event, encode_event
from tests.support.tiers.segment_metadata import DELETING, FINISHED, ORDERS, STARTED, remote_segment

GONE = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
FIRST, SECOND = remote_segment(0, 9, state=STARTED), remote_segment(10, 19, state=STARTED)

NOTICE = new_removal_notice(ORDERS, uuid.UUID(int=77), broker_id=3, now_ms=1000)


def step(state: RemoteLogSegmentState) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        segment_id=NOTICE.segment_id,
        event_timestamp_ms=2000,
        state=state,
        broker_id=4,
        custom_metadata=COMMITTED if state is FINISHED else None,
    )


def after(*states: RemoteLogSegmentState) -> RemoteLogSegmentMetadata:
    known = NOTICE
    for state in states:
        known = known.with_update(step(state))
    return known


def test_a_notice_is_no_segment_and_a_segment_is_no_notice() -> None:
    assert is_removal_notice(NOTICE)
    assert not is_removal_notice(FIRST)
    assert not is_active_notice(replace(FIRST, custom_metadata=COMMITTED))
    assert not is_removal_notice(replace(NOTICE, leader_epochs=((0, 0),)))


@pytest.mark.parametrize(
    ("states", "is_active", "is_committed"),
    [
        ((), True, False),
        ((FINISHED,), True, True),
        ((DELETING,), False, False),
        ((FINISHED, DELETING), True, True),
    ],
)
def test_a_notice_reports_at_any_time_whether_it_was_committed(
    states: tuple[RemoteLogSegmentState, ...], *, is_active: bool, is_committed: bool
) -> None:
    known = after(*states)
    assert (is_active_notice(known), is_committed_notice(known)) == (is_active, is_committed)
    assert decode_event(encode_event(replace(known, state=STARTED))) == replace(known, state=STARTED)


def test_a_notice_that_was_withdrawn_cannot_be_committed() -> None:
    rlmm = InmemoryRemoteLogMetadataManager()
    rlmm.add_remote_log_segment_metadata(NOTICE)
    rlmm.update_remote_log_segment_metadata(step(DELETING))
    with pytest.raises(InvalidSegmentTransitionError):
        rlmm.update_remote_log_segment_metadata(step(FINISHED))
    rlmm.update_remote_log_segment_metadata(step(GONE))
    with pytest.raises(InvalidSegmentTransitionError):
        rlmm.update_remote_log_segment_metadata(step(FINISHED))


def test_no_segment_is_added_while_all_of_them_go() -> None:
    rlmm = InmemoryRemoteLogMetadataManager()
    rlmm.add_remote_log_segment_metadata(FIRST)
    rlmm.add_remote_log_segment_metadata(NOTICE)
    for state in (FINISHED, DELETING):
        with pytest.raises(InvalidAddError, match="are being removed"):
            rlmm.add_remote_log_segment_metadata(SECOND)
        rlmm.update_remote_log_segment_metadata(step(state))
    with pytest.raises(InvalidAddError, match="are being removed"):
        rlmm.add_remote_log_segment_metadata(SECOND)
    # Another notice may be added, and what was added before may be repeated.
    rlmm.add_remote_log_segment_metadata(new_removal_notice(ORDERS, uuid.UUID(int=78), broker_id=1, now_ms=0))
    rlmm.add_remote_log_segment_metadata(FIRST)


def test_a_state_that_was_loaded_keeps_its_notices() -> None:
    source, rlmm = InmemoryRemoteLogMetadataManager(), InmemoryRemoteLogMetadataManager()
    source.add_remote_log_segment_metadata(NOTICE)
    rlmm.load(source.dump())
    with pytest.raises(InvalidAddError):
        rlmm.add_remote_log_segment_metadata(SECOND)
    rlmm.update_remote_log_segment_metadata(step(DELETING))
    rlmm.add_remote_log_segment_metadata(SECOND)


def test_notices_are_found_by_an_epoch_that_no_log_has() -> None:
    rlmm = InmemoryRemoteLogMetadataManager()
    rlmm.add_remote_log_segment_metadata(NOTICE)
    rlmm.update_remote_log_segment_metadata(step(FINISHED))
    assert list(rlmm.list_remote_log_segments(ORDERS, NOTICE_EPOCH)) == [after(FINISHED)]
    assert rlmm.remote_log_segment_metadata(ORDERS, 0, 0) is None
    assert rlmm.highest_offset_for_epoch(ORDERS, 0) is None
