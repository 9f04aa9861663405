"""What the remote tier and its metadata can raise.

RemoteStorageError
├── SegmentNotFoundError               the tier has no such object
├── InvalidAddError                    a segment may not be added like this
├── InvalidSegmentTransitionError      a segment may not change its state like this
├── InvalidPartitionDeleteTransitionError
├── InvalidRangeError                  the caller asked for bytes that cannot exist
├── RemoteBackendError                 the store failed or refused; may be tried again unless it says otherwise
└── NotReadyError                      the metadata of the partition is not known here yet; to be tried again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import CrabkaError

if TYPE_CHECKING:
    from crabka.remote.segments import (
        RemoteLogSegmentId,
        RemoteLogSegmentState,
        RemotePartitionDeleteState,
        TopicIdPartition,
    )


class RemoteStorageError(CrabkaError):
    """Root of what goes wrong with remote segments."""

    retriable = False


class SegmentNotFoundError(RemoteStorageError):
    """The tier or its metadata lacks what was asked for."""

    def __init__(self, segment_id: RemoteLogSegmentId, what: str = "segment") -> None:
        super().__init__(f"{what} of {segment_id} is not in the remote tier")
        self.segment_id = segment_id


class InvalidAddError(RemoteStorageError):
    """A segment was added in another state than the first, or twice with different content."""

    def __init__(self, segment_id: RemoteLogSegmentId, reason: str) -> None:
        super().__init__(f"{segment_id} cannot be added: {reason}")
        self.segment_id = segment_id
        self.reason = reason


class InvalidSegmentTransitionError(RemoteStorageError):
    """A segment cannot go from its state to that one. `source` is None for a segment that is not known."""

    def __init__(
        self, segment_id: RemoteLogSegmentId, source: RemoteLogSegmentState | None, target: RemoteLogSegmentState
    ) -> None:
        before = "unknown" if source is None else source.name
        super().__init__(f"{segment_id} cannot go from {before} to {target.name}")
        self.segment_id = segment_id
        self.source = source
        self.target = target


class InvalidPartitionDeleteTransitionError(RemoteStorageError):
    """The deletion of a partition cannot go from its state to that one. `source` is None before it began."""

    def __init__(
        self,
        topic_id_partition: TopicIdPartition,
        source: RemotePartitionDeleteState | None,
        target: RemotePartitionDeleteState,
    ) -> None:
        before = "none" if source is None else source.name
        super().__init__(f"the deletion of {topic_id_partition} cannot go from {before} to {target.name}")
        self.topic_id_partition = topic_id_partition
        self.source = source
        self.target = target


class InvalidRangeError(RemoteStorageError):
    """A position after the end of the segment, or an end before the start."""


class RemoteBackendError(RemoteStorageError):
    """The store returned an error or wrong bytes, or did not respond in time."""

    def __init__(self, message: str, *, retriable: bool = True) -> None:
        super().__init__(message)
        self.retriable = retriable


class TruncatedObjectError(RemoteBackendError):
    """The object of a segment is shorter than the segment; a retry does not help."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retriable=False)


class NotReadyError(RemoteStorageError):
    """The metadata of a partition is not loaded here, so nothing can be said about its segments yet."""

    retriable = True
