"""How the states of remote segments and of partition deletions may follow each other (KIP-405).

The tables are data: the checks below and the diagrams of docs/internals/tiering.md are made from them. A step that was
taken already is legal and changes nothing, since a step may have to be requested twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from crabka.remote.errors import (
    InvalidAddError,
    InvalidPartitionDeleteTransitionError,
    InvalidSegmentTransitionError,
)
from crabka.remote.removal_notice import is_removal_notice
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)

# From, to, and when. None is an unknown segment.
SEGMENT_TRANSITIONS: Mapping[RemoteLogSegmentState | None, Mapping[RemoteLogSegmentState, str]] = {
    None: {
        RemoteLogSegmentState.COPY_SEGMENT_STARTED: "the leader is about to upload",
    },
    RemoteLogSegmentState.COPY_SEGMENT_STARTED: {
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED: "all of it is stored",
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED: "the upload failed or was abandoned",
    },
    RemoteLogSegmentState.COPY_SEGMENT_FINISHED: {
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED: "expired, or the topic is deleted",
    },
    RemoteLogSegmentState.DELETE_SEGMENT_STARTED: {
        RemoteLogSegmentState.DELETE_SEGMENT_FINISHED: "nothing of it is stored any more",
    },
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED: {},
}

# The same as rows and columns for the replay of many events: members of an enum are slow to find in a mapping.
_IS_FIRST_STATE = tuple(state in SEGMENT_TRANSITIONS[None] for state in RemoteLogSegmentState)
_IS_STEP = tuple(
    tuple(target in SEGMENT_TRANSITIONS[source] for target in RemoteLogSegmentState) for source in RemoteLogSegmentState
)

# From, to, and when. None is a partition that is not being deleted.
PARTITION_DELETE_TRANSITIONS: Mapping[RemotePartitionDeleteState | None, Mapping[RemotePartitionDeleteState, str]] = {
    None: {
        RemotePartitionDeleteState.DELETE_PARTITION_MARKED: "the topic is deleted",
    },
    RemotePartitionDeleteState.DELETE_PARTITION_MARKED: {
        RemotePartitionDeleteState.DELETE_PARTITION_STARTED: "its segments are being deleted",
    },
    RemotePartitionDeleteState.DELETE_PARTITION_STARTED: {
        RemotePartitionDeleteState.DELETE_PARTITION_FINISHED: "no segment is left",
    },
    RemotePartitionDeleteState.DELETE_PARTITION_FINISHED: {},
}


def is_segment_step(source: RemoteLogSegmentState, target: RemoteLogSegmentState) -> bool:
    """Return whether a segment may go from one state to another."""
    return _IS_STEP[source][target]


def require_segment_add(
    existing: RemoteLogSegmentMetadata | None,
    metadata: RemoteLogSegmentMetadata,
    partition_delete: RemotePartitionDeleteMetadata | None = None,
    *,
    is_being_emptied: bool = False,
) -> bool:
    """Return whether a segment that is to be added is new: False if it was added just like this before.

    Raises InvalidAddError for another first state, for an id that is taken, and once the partition is to be deleted or
    while a notice says that all its segments go: they are a list then that only gets shorter.
    """
    if not _IS_FIRST_STATE[metadata.state]:
        raise InvalidAddError(metadata.segment_id, f"it would begin as {metadata.state.name}")
    if existing is not None:
        if existing == metadata:
            return False
        raise InvalidAddError(metadata.segment_id, f"it is known with other content, as {existing.state.name}")
    if partition_delete is not None:
        raise InvalidAddError(metadata.segment_id, f"its partition is {partition_delete.state.name}")
    if is_being_emptied and not is_removal_notice(metadata):
        raise InvalidAddError(metadata.segment_id, "all segments of its partition are being removed")
    return True


def require_segment_transition(
    existing: RemoteLogSegmentMetadata | None, update: RemoteLogSegmentMetadataUpdate
) -> bool:
    """Return whether an update changes anything: False if the step was taken before.

    A finished deletion leaves nothing to remember, so for an unknown segment it is a step that was taken before.
    Raises InvalidSegmentTransitionError.
    """
    if existing is None:
        if update.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            return False
        raise InvalidSegmentTransitionError(update.segment_id, None, update.state)
    if is_segment_step(existing.state, update.state):
        return True
    if _is_retry(existing, update):
        return False
    raise InvalidSegmentTransitionError(update.segment_id, existing.state, update.state)


def _is_retry(existing: RemoteLogSegmentMetadata, update: RemoteLogSegmentMetadataUpdate) -> bool:
    """The same step, perhaps by another broker or at another time; it must not change the metadata of the segment."""
    return (
        update.state is existing.state
        and not _IS_FIRST_STATE[update.state]
        and update.custom_metadata in {None, existing.custom_metadata}
    )


def require_partition_delete_transition(
    existing: RemotePartitionDeleteMetadata | None, metadata: RemotePartitionDeleteMetadata, *, has_segments: bool
) -> bool:
    """Return whether a step in the deletion of a partition changes anything: False if it was taken before.

    A finished deletion leaves nothing to remember, so where neither a mark nor a segment is known, it is a step that
    was taken before. Raises InvalidPartitionDeleteTransitionError.
    """
    source = None if existing is None else existing.state
    if metadata.state in PARTITION_DELETE_TRANSITIONS[source]:
        return True
    gone = source is None and not has_segments
    if metadata.state is source or (gone and metadata.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED):
        return False
    raise InvalidPartitionDeleteTransitionError(metadata.topic_id_partition, source, metadata.state)
