"""Follows the events of a tier's metadata from the first to the last and notes those that brokers refuse.

Unlike the cache of a broker it remembers which segments are gone, so that what is left of them is separated from what
was never known.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from crabka.remote.errors import (
    InvalidAddError,
    InvalidPartitionDeleteTransitionError,
    InvalidSegmentTransitionError,
    RemoteStorageError,
)
from crabka.remote.lifecycle import (
    require_partition_delete_transition,
    require_segment_add,
    require_segment_transition,
)
from crabka.remote.removal_notice import is_active_notice, is_removal_notice
from crabka.remote.scrub.faults import TierFault, TierFaultKind
from crabka.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TierEvent = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata


class TierHistory:
    """Segments that are not gone, deletions that are under way, and what was refused."""

    def __init__(self) -> None:
        self._segments: dict[uuid.UUID, RemoteLogSegmentMetadata] = {}
        self._gone: set[uuid.UUID] = set()
        self._deletions: dict[TopicIdPartition, RemotePartitionDeleteMetadata] = {}
        self._topic_ids: set[uuid.UUID] = set()
        self._notices: set[uuid.UUID] = set()
        self.faults: list[TierFault] = []
        self.event_count = 0

    @property
    def segments(self) -> Mapping[uuid.UUID, RemoteLogSegmentMetadata]:
        """All segments that are being copied, finished or being deleted, by the id of their upload."""
        return self._segments

    @property
    def partition_deletions(self) -> Mapping[TopicIdPartition, RemotePartitionDeleteMetadata]:
        """Partitions whose deletion began and did not end."""
        return self._deletions

    def is_gone(self, segment_id: uuid.UUID) -> bool:
        """Return whether there was such a segment and its deletion is finished."""
        return segment_id in self._gone

    def knows_topic(self, topic_id: uuid.UUID) -> bool:
        """Return whether there was any event of a topic."""
        return topic_id in self._topic_ids

    def finished(self) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield the segments that readers can find."""
        wanted = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        return (
            segment for segment in self._segments.values() if segment.state is wanted and not is_removal_notice(segment)
        )

    def apply(self, event: TierEvent) -> None:
        """Take the next event of a metadata partition."""
        self.event_count += 1
        self._topic_ids.add(event.topic_id_partition.topic_id)
        match event:
            case RemoteLogSegmentMetadata():
                self._add(event)
            case RemoteLogSegmentMetadataUpdate():
                self._update(event)
            case RemotePartitionDeleteMetadata():
                self._delete_partition(event)

    def _add(self, metadata: RemoteLogSegmentMetadata) -> None:
        key = metadata.segment_id.id
        deletion = self._deletions.get(metadata.topic_id_partition)
        is_being_emptied = self._is_being_emptied(metadata.topic_id_partition)
        if key in self._gone:
            self._refuse(TierFaultKind.LATE_EVENT, metadata.segment_id, "was added again after its deletion")
            return
        try:
            if require_segment_add(self._segments.get(key), metadata, deletion, is_being_emptied=is_being_emptied):
                self._segments[key] = metadata
                if is_removal_notice(metadata):
                    self._notices.add(key)
        except InvalidAddError as error:
            is_late = deletion is not None or is_being_emptied
            kind = TierFaultKind.LATE_EVENT if is_late else TierFaultKind.ILLEGAL_STATE
            self._refuse(kind, metadata.segment_id, error.reason)

    def _update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        key = update.segment_id.id
        known = self._segments.get(key)
        is_deletion = update.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
        if known is None and key in self._gone:
            if not is_deletion:
                self._refuse(TierFaultKind.LATE_EVENT, update.segment_id, f"got {update.state.name} after its deletion")
            return
        if known is None:
            detail = f"{update.state.name} of a segment that was never added"
            self._refuse(TierFaultKind.ILLEGAL_STATE, update.segment_id, detail)
            return
        try:
            if not require_segment_transition(known, update):
                return
        except InvalidSegmentTransitionError as error:
            is_late = known.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED
            kind = TierFaultKind.LATE_EVENT if is_late else TierFaultKind.ILLEGAL_STATE
            self._refuse(kind, update.segment_id, _reason(error))
            return
        if is_deletion:
            del self._segments[key]
            self._gone.add(key)
            self._notices.discard(key)
        else:
            self._segments[key] = known.with_update(update)

    def _is_being_emptied(self, partition: TopicIdPartition) -> bool:
        standing = (self._segments[key] for key in self._notices if key in self._segments)
        return any(each.topic_id_partition == partition and is_active_notice(each) for each in standing)

    def _delete_partition(self, step: RemotePartitionDeleteMetadata) -> None:
        partition = step.topic_id_partition
        left = [key for key, segment in self._segments.items() if segment.topic_id_partition == partition]
        try:
            if not require_partition_delete_transition(self._deletions.get(partition), step, has_segments=bool(left)):
                return
        except InvalidPartitionDeleteTransitionError as error:
            # A broker that continues after a crash, or in parallel with another broker, repeats the first step.
            is_late = error.source is not None and error.target <= error.source
            kind = TierFaultKind.LATE_EVENT if is_late else TierFaultKind.ILLEGAL_STATE
            self.faults.append(TierFault(kind=kind, detail=_reason(error), partition=partition))
            return
        if step.state is not RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            self._deletions[partition] = step
            return
        # Brokers forget the partition now, whatever is left of it.
        self._deletions.pop(partition, None)
        for key in left:
            gone = self._segments.pop(key)
            self._gone.add(key)
            detail = f"was {gone.state.name} when the deletion of its partition ended"
            self._refuse(TierFaultKind.ILLEGAL_STATE, gone.segment_id, detail)

    def _refuse(self, kind: TierFaultKind, segment_id: RemoteLogSegmentId, detail: str) -> None:
        self.faults.append(
            TierFault(kind=kind, detail=detail, partition=segment_id.topic_id_partition, segment_id=segment_id)
        )


def _reason(error: RemoteStorageError) -> str:
    """Return the part of a message after the name of the thing, which a fault has itself."""
    return f"cannot {str(error).partition(' cannot ')[2]}"
