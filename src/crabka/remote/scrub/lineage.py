"""Checks that the segments of a partition are one history without holes.

Leaders may have copied the same offsets twice, with other borders, and an unclean election leaves segments that are no
part of the history any more. What counts is the lineage: the leader epochs of the newest segment. Every offset of it
has to be in a segment that has it in the right epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from crabka.formats.leader_epochs import EpochLineage, Epochs
from crabka.remote.scrub.faults import TierFault, TierFaultKind
from crabka.remote.segments import newest_segment

if TYPE_CHECKING:
    from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition


class PartitionBounds(NamedTuple):
    """What brokers say of a partition: its first offset, and the first that is on their disks."""

    log_start_offset: int
    local_log_start_offset: int


def check_lineage(
    partition: TopicIdPartition,
    segments: Sequence[RemoteLogSegmentMetadata],
    lineage: Epochs | None,
    bounds: PartitionBounds | None = None,
) -> list[TierFault]:
    """Return gaps and contradictions of the finished segments of one partition.

    `lineage` are the epochs up to the end of the newest segment; if they are not known, segments count whatever their
    epochs are. With `bounds`, all that is not on disks has to be here; without, only what lies between the first and
    the last offset.
    """
    last = newest_segment(segments)
    faults = list(_conflicts(segments, lineage or ()))
    if last is None or not lineage:
        return faults + _gaps(partition, [range(each.start_offset, each.end_offset + 1) for each in segments], bounds)
    history = EpochLineage(lineage, last.end_offset + 1)
    intervals: list[range] = []
    for segment in segments:
        parts = list(_parts_in_lineage(segment, history))
        intervals += parts
        if not parts and segment.end_offset >= lineage[0][1]:
            faults.append(_of_segment(TierFaultKind.OUTSIDE_LINEAGE, segment, "is no part of the history any more"))
    return faults + _gaps(partition, intervals, bounds)


def overlaps(segments: Sequence[RemoteLogSegmentMetadata]) -> dict[RemoteLogSegmentMetadata, range]:
    """Return for segments that share offsets with another one the range in which they do."""
    ordered = sorted(segments, key=lambda segment: (segment.start_offset, segment.end_offset))
    shared: dict[RemoteLogSegmentMetadata, range] = {}
    farthest: RemoteLogSegmentMetadata | None = None
    for segment in ordered:
        if farthest is not None and segment.start_offset <= farthest.end_offset:
            common = range(segment.start_offset, min(segment.end_offset, farthest.end_offset) + 1)
            for each in (farthest, segment):
                shared[each] = _hull(shared.get(each), common)
        if farthest is None or segment.end_offset > farthest.end_offset:
            farthest = segment
    return shared


def predecessors(
    segments: Sequence[RemoteLogSegmentMetadata],
) -> dict[RemoteLogSegmentMetadata, RemoteLogSegmentMetadata]:
    """Return for segments the one that ends where they begin; of several the one of the latest leader that may be."""
    by_end: dict[int, list[RemoteLogSegmentMetadata]] = {}
    for segment in segments:
        by_end.setdefault(segment.end_offset, []).append(segment)
    before: dict[RemoteLogSegmentMetadata, RemoteLogSegmentMetadata] = {}
    for segment in segments:
        ending = by_end.get(segment.start_offset - 1, [])
        found = newest_segment(each for each in ending if each.leader_epochs[-1][0] <= segment.leader_epochs[0][0])
        if found is not None:
            before[segment] = found
    return before


def _parts_in_lineage(segment: RemoteLogSegmentMetadata, history: EpochLineage) -> Iterator[range]:
    """Yield the offsets that a segment has in the epoch in which the history has them."""
    for epoch, (start, end) in EpochLineage(segment.leader_epochs, segment.end_offset + 1).spans.items():
        true_span = history.spans.get(epoch)
        if true_span is not None and (part := range(max(start, true_span[0]), min(end, true_span[1]))):
            yield part


def _gaps(partition: TopicIdPartition, intervals: Sequence[range], bounds: PartitionBounds | None) -> list[TierFault]:
    """Return the holes between the intervals, and between them and what is on disks."""
    wanted_from = wanted_to = None
    if bounds is not None and bounds.log_start_offset < bounds.local_log_start_offset:
        wanted_from, wanted_to = bounds.log_start_offset, bounds.local_log_start_offset
    log_start = 0 if bounds is None else bounds.log_start_offset
    holes: list[range] = []
    reached = wanted_from
    for interval in sorted(intervals, key=lambda each: (each.start, each.stop)):
        if reached is not None and interval.start > reached:
            holes.append(range(max(reached, log_start), interval.start))
        reached = interval.stop if reached is None else max(reached, interval.stop)
    if wanted_to is not None and reached is not None and reached < wanted_to:
        holes.append(range(reached, wanted_to))
    return [
        TierFault(
            kind=TierFaultKind.GAP,
            partition=partition,
            detail=f"offsets {hole.start}..{hole.stop - 1} are in no segment",
        )
        for hole in holes
        if hole
    ]


def _conflicts(segments: Sequence[RemoteLogSegmentMetadata], lineage: Epochs) -> Iterator[TierFault]:
    """Yield epochs that begin at two places. The first entry of a list is cut, so that it does not count."""
    starts = dict(lineage[1:])
    for segment in sorted(segments, key=lambda each: each.start_offset):
        for epoch, first in segment.leader_epochs[1:]:
            known = starts.setdefault(epoch, first)
            if known != first:
                detail = f"epoch {epoch} begins at {first} here and at {known} elsewhere"
                yield _of_segment(TierFaultKind.EPOCH_CONFLICT, segment, detail)


def _of_segment(kind: TierFaultKind, segment: RemoteLogSegmentMetadata, detail: str) -> TierFault:
    return TierFault(kind=kind, detail=detail, partition=segment.topic_id_partition, segment_id=segment.segment_id)


def _hull(a: range | None, b: range) -> range:
    return b if a is None else range(min(a.start, b.start), max(a.stop, b.stop))
