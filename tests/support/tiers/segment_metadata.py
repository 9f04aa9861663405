"""Metadata of remote segments, made short."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from crabka.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)

ORDERS = TopicIdPartition(uuid.UUID(int=7), "orders", 0)

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


def remote_segment(
    start: int,
    end: int,
    *,
    epochs: Sequence[tuple[int, int]] | None = None,
    number: int | None = None,
    size: int = 100,
    newest_ms: int = 1000,
    state: RemoteLogSegmentState = FINISHED,
    partition: TopicIdPartition = ORDERS,
    broker_id: int = 1,
) -> RemoteLogSegmentMetadata:
    """Return a segment of [start, end], of epoch 0 by default; its id is its number, or made of offsets."""
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid.UUID(int=start * 100_000 + end if number is None else number)),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=newest_ms,
        broker_id=broker_id,
        event_timestamp_ms=0,
        segment_size_bytes=size,
        leader_epochs=tuple(epochs) if epochs is not None else ((0, start),),
        state=state,
    )


class ListedSegments:
    """What segments in a list tell a planner, by the plainest reading of them."""

    def __init__(self, segments: Iterable[RemoteLogSegmentMetadata], highest: dict[int, int] | None = None) -> None:
        self.segments = list(segments)
        # What was copied once, and is not listed any more.
        self.highest = dict(highest or {})

    def _end_in(self, segment: RemoteLogSegmentMetadata, epoch: int) -> int:
        later = [start for other, start in segment.leader_epochs if other > epoch]
        return min(later) - 1 if later else segment.end_offset

    def highest_offset(self, epoch: int) -> int | None:
        found = [
            self._end_in(segment, epoch)
            for segment in self.segments
            if segment.state is FINISHED and epoch in dict(segment.leader_epochs)
        ]
        if epoch in self.highest:
            found.append(self.highest[epoch])
        return max(found, default=None)

    def segment_at(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        for segment in self.segments:
            start = dict(segment.leader_epochs).get(epoch)
            if segment.state is FINISHED and start is not None and start <= offset <= self._end_in(segment, epoch):
                return segment
        return None
