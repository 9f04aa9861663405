"""What the errors of the remote tier say."""

from __future__ import annotations

from crabka.remote.errors import InvalidSegmentTransitionError, NotReadyError, RemoteBackendError
from crabka.remote.segments import RemoteLogSegmentState
from crabka.testing.remote_samples import sample_segment


def test_a_wrong_transition_names_both_states() -> None:
    error = InvalidSegmentTransitionError(
        sample_segment(1, (0, 9)).segment_id,
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    )
    assert "from DELETE_SEGMENT_STARTED to COPY_SEGMENT_FINISHED" in str(error)


def test_what_may_be_tried_again_says_so() -> None:
    assert NotReadyError("not yet").retriable
    assert RemoteBackendError("slow down").retriable
    assert not RemoteBackendError("denied", retriable=False).retriable
