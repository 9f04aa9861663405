"""The remote part of one partition's log: which segments hold which offsets of its history.

Several leaders may have uploaded the same offsets, some of them from a branch of history that was cut off later. The
leader epochs of the log say which branch counts, so a segment is read only as far as its epochs are those of the log.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, Protocol

from crabka.formats.leader_epochs import EpochLineage
from crabka.remote.segments import RemoteLogSegmentState, TopicIdPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.broker.partition.partition import Partition
    from crabka.remote.segments import RemoteLogSegmentMetadata


class SegmentLookup(Protocol):
    """What reading needs of the tier's metadata. All from memory; raises NotReadyError if it is not loaded."""

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that holds an offset that was written in an epoch."""

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return segments in all states by start offset: those of an epoch, or all."""

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on."""


class RemotePlace(NamedTuple):
    """A segment, and the offset up to which it shares the history of the log."""

    segment: RemoteLogSegmentMetadata
    end_offset: int


class RemoteLog:
    """The segments of a partition as its leader epochs are at one moment."""

    __slots__ = ("_lineage", "_lookup", "topic_id_partition")

    def __init__(self, topic_id_partition: TopicIdPartition, lineage: EpochLineage, lookup: SegmentLookup) -> None:
        self.topic_id_partition = topic_id_partition
        self._lineage = lineage
        self._lookup = lookup

    def place_of(self, offset: int) -> RemotePlace | None:
        """Return where an offset lies, None if no segment is known to hold it. Raises NotReadyError."""
        epoch = self.epoch_of(offset)
        if epoch is None:
            return None
        segment = self._lookup.remote_log_segment_metadata(self.topic_id_partition, epoch, offset)
        return None if segment is None else RemotePlace(segment, self._shared_end(segment, offset))

    def segment_before(self, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata | None:
        """Return the segment that ends where this one begins, both of the same history; None if there is none."""
        place = self.place_of(segment.start_offset - 1)
        is_before = place is not None and place.end_offset == segment.start_offset == place.segment.end_offset + 1
        return place.segment if place is not None and is_before else None

    def epoch_of(self, offset: int) -> int | None:
        """Return the leader epoch of an offset, None before all known ones."""
        return self._lineage.epoch_at(offset)

    def finished_segments(self, start_offset: int) -> Iterator[RemoteLogSegmentMetadata]:
        """Yield the segments that hold offsets from `start_offset` on, epoch by epoch, each once."""
        seen = set()
        for epoch in self._lineage.since(start_offset).epochs:
            for segment in self._lookup.list_remote_log_segments(self.topic_id_partition, epoch):
                if (
                    segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                    and segment.end_offset >= start_offset
                    and segment.segment_id not in seen
                ):
                    seen.add(segment.segment_id)
                    yield segment

    def next_with_txn_index(self, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the first segment from an offset on that has aborted transactions."""
        if self._lineage.epoch_at(offset) is None:
            return None
        for epoch, start in self._lineage.since(offset).entries:
            segment = self._lookup.next_segment_with_txn_index(self.topic_id_partition, epoch, start)
            if segment is not None:
                return segment
        return None

    def _shared_end(self, segment: RemoteLogSegmentMetadata, offset: int) -> int:
        """Return where the segment and the log part, from an offset on that they share; its end if they do not."""
        theirs = EpochLineage(segment.leader_epochs)
        borders = sorted({*self._lineage.starts, *theirs.starts})
        for border in borders[bisect_right(borders, offset) :]:
            if border > segment.end_offset:
                break
            if self.epoch_of(border) != theirs.epoch_at(border):
                return border
        return segment.end_offset + 1


def remote_log_of(partition: Partition, lookup: SegmentLookup) -> RemoteLog:
    """Return the remote part of a hosted partition's log."""
    topic_id_partition = TopicIdPartition(partition.topic_id, partition.topic, partition.index)
    return RemoteLog(topic_id_partition, partition.log.leader_epochs.lineage, lookup)
