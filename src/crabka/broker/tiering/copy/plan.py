"""Which segments of a led partition go to the tier next (KIP-405, RLMCopyTask). PURE.

The lineage of leader epochs decides what is in the tier already, never base offsets: after a truncation a segment
with a known base offset may hold other records, and leaders roll at different offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from crabka.formats.leader_epochs import EpochLineage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.log.partition.partition_log import PartitionLog
    from crabka.remote.segments import RemoteLogSegmentMetadata

NOTHING_COPIED = -1


class SealedSegment(Protocol):
    """What the plan needs to know of a local segment. `end_offset` is that of the last record."""

    @property
    def base_offset(self) -> int:
        """The first offset."""
        ...

    @property
    def end_offset(self) -> int:
        """The last offset."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of its batches."""
        ...

    @property
    def is_flushed(self) -> bool:
        """Whether a crash can no longer take anything of it."""
        ...


SegmentT = TypeVar("SegmentT", bound=SealedSegment)


class RemoteLookup(Protocol):
    """The tier's metadata of one partition."""

    def highest_offset(self, epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied."""
        ...

    def segment_at(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment with an offset of an epoch."""
        ...


def lineage_of(source: PartitionLog) -> EpochLineage:
    """Return the history of a log."""
    return EpochLineage(source.leader_epochs.lineage.entries, source.log_end_offset)


def highest_remote_offset(lineage: EpochLineage, remote: RemoteLookup) -> int:
    """Return the last offset of this history that was ever copied, -1 if there is none.

    As Kafka's findHighestRemoteOffset: the newest epoch with anything in the tier decides, and what was copied beyond
    that epoch's end belongs to a history that was cut off.
    """
    for epoch in reversed(lineage.epochs):
        highest = remote.highest_offset(epoch)
        if highest is not None:
            return min(highest, lineage.end_of(epoch) - 1)
    return NOTHING_COPIED


def copied_offset(lineage: EpochLineage, remote: RemoteLookup, from_offset: int) -> int:
    """Return the offset up to which the tier holds all that the local log from `from_offset` on has.

    The highest offset alone does not prove it: it stays when a segment is deleted, and a late event of an
    abandoned upload may raise it for a moment. Deletion of local segments and the choice of what to copy use this.
    """
    highest = highest_remote_offset(lineage, remote)
    offset = from_offset
    while offset <= highest:
        epoch = lineage.epoch_at(offset)
        segment = None if epoch is None else remote.segment_at(epoch, offset)
        if epoch is None or segment is None:
            return offset - 1
        offset = min(segment.end_offset + 1, lineage.end_of(epoch))
    return highest


def plan_copy(
    segments: Iterable[SegmentT], *, copied_offset: int, log_start_offset: int, stable_offset: int
) -> list[SegmentT]:
    """Return what to copy now, in order: not copied, not below the log start, durable, decided and replicated.

    `stable_offset` is the last stable offset, which is never above the high watermark.
    """
    planned = []
    for segment in segments:
        if segment.end_offset <= copied_offset or segment.end_offset < log_start_offset:
            continue
        if segment.end_offset >= stable_offset or not segment.is_flushed:
            # Segments are copied in order, so that the tier has no holes.
            break
        planned.append(segment)
    return planned


def remote_log_start(lineage: EpochLineage, segments: Iterable[RemoteLogSegmentMetadata], *, local_start: int) -> int:
    """Return where the log begins if the tier is counted: at its oldest segment of this history, or at the local start.

    As Kafka's findLogStartOffset, for a leader whose own note of the log start may be older than what its predecessor
    deleted. `segments` are the finished ones. What lies before the first known epoch belongs to no history: a crash may
    have taken the note of a log start, but not the epochs that went with it.
    """
    epochs = frozenset(lineage.epochs)
    starts: dict[int, int] = {}
    for segment in segments:
        for epoch, _ in segment.leader_epochs:
            if epoch in epochs:
                starts[epoch] = min(segment.start_offset, starts.get(epoch, segment.start_offset))
    return min(max(starts[min(starts)], lineage.start_offset), local_start) if starts else local_start
