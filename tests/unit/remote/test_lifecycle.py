"""Which states may follow each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from crabka.remote.errors import (
    InvalidAddError,
    InvalidPartitionDeleteTransitionError,
    InvalidSegmentTransitionError,
)
from crabka.remote.lifecycle import (
    PARTITION_DELETE_TRANSITIONS,
    SEGMENT_TRANSITIONS,
    is_segment_step,
    require_partition_delete_transition,
    require_segment_add,
    require_segment_transition,
)
from crabka.remote.segments import CustomMetadata, RemoteLogSegmentState, RemotePartitionDeleteState
from crabka.testing.remote_samples import in_state, sample_partition_delete, sample_segment, sample_update

State = RemoteLogSegmentState
DeleteState = RemotePartitionDeleteState
SEGMENT = sample_segment(1, (0, 9))
LEGAL_STEPS = {
    (State.COPY_SEGMENT_STARTED, State.COPY_SEGMENT_FINISHED),
    (State.COPY_SEGMENT_STARTED, State.DELETE_SEGMENT_STARTED),
    (State.COPY_SEGMENT_FINISHED, State.DELETE_SEGMENT_STARTED),
    (State.DELETE_SEGMENT_STARTED, State.DELETE_SEGMENT_FINISHED),
}


def test_the_tables_name_every_state() -> None:
    assert set(SEGMENT_TRANSITIONS) == {None, *State}
    assert set(PARTITION_DELETE_TRANSITIONS) == {None, *DeleteState}


@pytest.mark.parametrize(("source", "target"), list(product(State, State)))
def test_a_segment_takes_only_legal_steps(source: RemoteLogSegmentState, target: RemoteLogSegmentState) -> None:
    existing, update = in_state(SEGMENT, source), sample_update(SEGMENT, target)
    assert is_segment_step(source, target) == ((source, target) in LEGAL_STEPS)
    if (source, target) in LEGAL_STEPS:
        assert require_segment_transition(existing, update)
    elif source is target is not State.COPY_SEGMENT_STARTED:
        assert not require_segment_transition(existing, update)
    else:
        with pytest.raises(InvalidSegmentTransitionError) as refused:
            require_segment_transition(existing, update)
        assert (refused.value.source, refused.value.target) == (source, target)
        assert refused.value.segment_id == SEGMENT.segment_id


@pytest.mark.parametrize("state", [State.COPY_SEGMENT_FINISHED, State.DELETE_SEGMENT_STARTED])
def test_a_repeated_step_changes_nothing(state: RemoteLogSegmentState) -> None:
    existing = replace(in_state(SEGMENT, state), custom_metadata=CustomMetadata(b"place"))
    retry = sample_update(SEGMENT, state, custom_metadata=CustomMetadata(b"place"))
    assert not require_segment_transition(existing, retry)
    assert not require_segment_transition(existing, replace(retry, broker_id=9, event_timestamp_ms=99))
    assert not require_segment_transition(existing, replace(retry, custom_metadata=None))


def test_a_repeated_step_must_not_bring_other_custom_metadata() -> None:
    existing = in_state(SEGMENT, State.COPY_SEGMENT_FINISHED)
    update = sample_update(SEGMENT, State.COPY_SEGMENT_FINISHED, custom_metadata=CustomMetadata(b"elsewhere"))
    with pytest.raises(InvalidSegmentTransitionError, match="from COPY_SEGMENT_FINISHED to COPY_SEGMENT_FINISHED"):
        require_segment_transition(existing, update)


def test_of_an_unknown_segment_only_the_end_of_its_deletion_is_accepted_and_changes_nothing() -> None:
    assert not require_segment_transition(None, sample_update(SEGMENT, State.DELETE_SEGMENT_FINISHED))
    for state in set(State) - {State.DELETE_SEGMENT_FINISHED}:
        with pytest.raises(InvalidSegmentTransitionError, match="from unknown") as refused:
            require_segment_transition(None, sample_update(SEGMENT, state))
        assert refused.value.source is None


def test_a_new_segment_is_added_and_the_same_again_changes_nothing() -> None:
    assert require_segment_add(None, SEGMENT)
    assert not require_segment_add(SEGMENT, SEGMENT)


@pytest.mark.parametrize("state", sorted(set(State) - {State.COPY_SEGMENT_STARTED}))
def test_a_segment_begins_with_its_copy(state: RemoteLogSegmentState) -> None:
    with pytest.raises(InvalidAddError, match=f"begin as {state.name}"):
        require_segment_add(None, in_state(SEGMENT, state))


def test_an_id_is_not_given_to_two_segments() -> None:
    with pytest.raises(InvalidAddError, match="other content"):
        require_segment_add(SEGMENT, replace(SEGMENT, end_offset=8))
    with pytest.raises(InvalidAddError, match="as COPY_SEGMENT_FINISHED"):
        require_segment_add(in_state(SEGMENT, State.COPY_SEGMENT_FINISHED), SEGMENT)


def test_no_segment_is_added_to_a_partition_that_is_to_be_deleted() -> None:
    marked = sample_partition_delete(DeleteState.DELETE_PARTITION_MARKED)
    with pytest.raises(InvalidAddError, match="DELETE_PARTITION_MARKED"):
        require_segment_add(None, SEGMENT, marked)
    assert not require_segment_add(SEGMENT, SEGMENT, marked)


@pytest.mark.parametrize(("source", "target"), list(product([None, *DeleteState], DeleteState)))
def test_the_deletion_of_a_partition_takes_only_legal_steps(
    source: RemotePartitionDeleteState | None, target: RemotePartitionDeleteState
) -> None:
    existing = None if source is None else sample_partition_delete(source)
    step = sample_partition_delete(target)
    order = [None, *DeleteState]
    if order.index(target) == order.index(source) + 1:
        assert require_partition_delete_transition(existing, step, has_segments=True)
    elif target is source:
        assert not require_partition_delete_transition(existing, step, has_segments=True)
    else:
        with pytest.raises(InvalidPartitionDeleteTransitionError) as refused:
            require_partition_delete_transition(existing, step, has_segments=True)
        assert (refused.value.source, refused.value.target) == (source, target)


def test_the_end_of_a_deletion_may_be_reported_again_when_nothing_is_left_to_remember_it() -> None:
    finished = sample_partition_delete(DeleteState.DELETE_PARTITION_FINISHED)
    assert not require_partition_delete_transition(None, finished, has_segments=False)
    started = sample_partition_delete(DeleteState.DELETE_PARTITION_STARTED)
    with pytest.raises(InvalidPartitionDeleteTransitionError, match="from none to DELETE_PARTITION_STARTED"):
        require_partition_delete_transition(None, started, has_segments=False)
