"""Which remote segments are removed, and where the log starts then (KIP-405, RLMExpirationTask). PURE.

Segments are removed from the oldest on, while they are too old, exceed the size, or are below the log start. The first
one that stays ends the search, so that the log never has a hole. Only finished segments count: an upload in progress or
an abandoned one is neither part of the size nor a reason to stop. Offsets that exist in several places, because leaders
copied them twice or the local disk still has them, count once: by size a segment is removed only if enough is left
after it.

A log that lost its records, as on a disk that was replaced, knows no epoch of what the tier holds. Such segments are
not removed as those of an obsolete history (Kafka does that): they may be the last copy. What ends below the log
start is gone for readers in any case; all other segments of epochs before those of the log stay until an operator
gives them up (`crabka tier forget`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Set
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from crabka.remote.segments import RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabka.formats.leader_epochs import EpochLineage
    from crabka.log.partition.tierable import SegmentExtent
    from crabka.remote.segments import RemoteLogSegmentId, RemoteLogSegmentMetadata

UNLIMITED = -1
NO_TIMESTAMP = -1


class RemovalReason(Enum):
    """Why a remote segment goes."""

    TIME = "retention.ms"
    SIZE = "retention.bytes"
    LOG_START = "it is below the log start"
    UNREFERENCED = "its leader epochs are before those of the log"
    UNFINISHED = "its deletion was begun before"


class Removal(NamedTuple):
    """A segment that goes."""

    segment: RemoteLogSegmentMetadata
    reason: RemovalReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """Settings of the topic; -1 sets no limit."""

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """What retention must know of the local log."""

    log_start_offset: int
    high_watermark: int
    # All local segments, whether the tier has them or not.
    local: Sequence[SegmentExtent] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """What is to be done, the log start first: deleting before it moved would leave readers without an answer."""

    # None if it stays.
    log_start_offset: int | None = None
    removals: tuple[Removal, ...] = ()
    # Finished segments that are no part of the log and may hold what nothing else has: only an operator removes them.
    foreign: tuple[RemoteLogSegmentMetadata, ...] = ()


class _SizesAfter:
    """How many bytes a log has from an offset on, at least.

    Of segments that overlap only one counts, since their metadata does not show how much they share. To count too
    little keeps a segment for longer; to count too much would delete segments too early.
    """

    __slots__ = ("_sizes", "_starts")

    def __init__(self, segments: Iterable[tuple[int, int, int]]) -> None:
        """Take first offset, last offset and size of all segments, remote and local ones."""
        # Negative, so that they rise.
        self._starts: list[int] = []
        self._sizes = [0]
        next_start: float = math.inf
        for start, end, size in sorted(segments, reverse=True):
            if end < next_start:
                next_start = start
                self._starts.append(-start)
                self._sizes.append(self._sizes[-1] + size)

    def from_offset(self, offset: int) -> int:
        """Return the bytes of segments that begin at or after an offset."""
        return self._sizes[bisect_right(self._starts, -offset)]


@dataclass(slots=True)
class _Search:
    """What makes segments go, and what was found."""

    expires_before_ms: int | None
    # -1 sets no limit.
    retention_bytes: int
    sizes: _SizesAfter
    removals: list[Removal] = field(default_factory=list)
    log_start_offset: int | None = None

    def reason(self, segment: RemoteLogSegmentMetadata) -> RemovalReason | None:
        """Return why a segment of the lineage goes, None if it stays."""
        newest_ms = segment.max_timestamp_ms
        # A segment of unknown time is not old: only the size limit can remove it.
        if self.expires_before_ms is not None and NO_TIMESTAMP < newest_ms <= self.expires_before_ms:
            return RemovalReason.TIME
        if self.retention_bytes != UNLIMITED and self.sizes.from_offset(segment.end_offset + 1) >= self.retention_bytes:
            return RemovalReason.SIZE
        return None


def plan_retention(
    lineage: EpochLineage,
    segments: Iterable[RemoteLogSegmentMetadata],
    extent: LogExtent,
    limits: RetentionLimits,
    *,
    now_ms: int,
    in_flight: Set[RemoteLogSegmentId] = frozenset(),
) -> RetentionPlan:
    """Return which of a partition's segments go. `in_flight` are those that this broker is copying or deleting."""
    listed = segments if not in_flight else [each for each in segments if each.segment_id not in in_flight]
    unfinished: list[Removal] = []
    finished: list[RemoteLogSegmentMetadata] = []
    for segment in listed:
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            finished.append(segment)
        elif segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            unfinished.append(Removal(segment, RemovalReason.UNFINISHED))
    search = _Search(
        expires_before_ms=None if limits.retention_ms == UNLIMITED else now_ms - limits.retention_ms,
        retention_bytes=limits.retention_bytes,
        sizes=_sizes(lineage, finished, extent, limits),
    )
    _search_oldest(lineage, _in_order(lineage, finished), extent, search)
    older = _older(lineage, finished)
    start = extent.log_start_offset
    unreferenced = [Removal(segment, RemovalReason.UNREFERENCED) for segment in older if segment.end_offset < start]
    return RetentionPlan(
        log_start_offset=search.log_start_offset,
        removals=(*unfinished, *search.removals, *unreferenced),
        foreign=tuple(_foreign(lineage, finished, start)),
    )


def _search_oldest(
    lineage: EpochLineage, ordered: Sequence[RemoteLogSegmentMetadata], extent: LogExtent, search: _Search
) -> None:
    for segment in ordered:
        if segment.end_offset < extent.log_start_offset and segment.leader_epochs[-1][0] <= lineage.epochs[0]:
            search.removals.append(Removal(segment, RemovalReason.LOG_START))
            continue
        if not _counts(lineage, segment, extent):
            # Of another history, or below the log start: it neither goes by retention nor keeps others from going.
            continue
        reason = search.reason(segment) if segment.end_offset < extent.high_watermark else None
        if reason is None:
            return
        search.removals.append(Removal(segment, reason))
        if segment.end_offset >= max(extent.log_start_offset, search.log_start_offset or 0):
            search.log_start_offset = segment.end_offset + 1


def _counts(lineage: EpochLineage, segment: RemoteLogSegmentMetadata, extent: LogExtent) -> bool:
    """Return whether a segment is a part of the log: what lies below the log start is as good as gone."""
    return segment.end_offset >= extent.log_start_offset and lineage.holds(segment.leader_epochs, segment.end_offset)


def _in_order(lineage: EpochLineage, segments: Iterable[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    """Return the segments with an epoch of the lineage, each once: by the first such epoch, then by offset."""
    epochs = frozenset(lineage.epochs)
    keyed = []
    for number, segment in enumerate(segments):
        for epoch, _ in segment.leader_epochs:
            if epoch in epochs:
                # The number keeps equal ones from being compared any further.
                keyed.append((epoch, segment.start_offset, segment.end_offset, number, segment))
                break
    keyed.sort()
    return [entry[-1] for entry in keyed]


def _older(lineage: EpochLineage, segments: Iterable[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    if not lineage.epochs:
        return []
    return [segment for segment in segments if segment.leader_epochs[-1][0] < lineage.epochs[0]]


def _foreign(
    lineage: EpochLineage, segments: Iterable[RemoteLogSegmentMetadata], log_start_offset: int
) -> Iterable[RemoteLogSegmentMetadata]:
    """Yield what reaches beyond the end of the log, or is of epochs before all of its own."""
    first = lineage.epochs[0] if lineage.epochs else math.inf
    for segment in segments:
        if segment.end_offset >= lineage.end_offset or (
            segment.end_offset >= log_start_offset and segment.leader_epochs[-1][0] < first
        ):
            yield segment


def _sizes(
    lineage: EpochLineage, finished: Iterable[RemoteLogSegmentMetadata], extent: LogExtent, limits: RetentionLimits
) -> _SizesAfter:
    """Return the bytes after each offset; not called without a limit."""
    if limits.retention_bytes == UNLIMITED:
        return _SizesAfter(())
    remote = (
        (segment.start_offset, segment.end_offset, segment.segment_size_bytes)
        for segment in finished
        if _counts(lineage, segment, extent)
    )
    # A deposed leader may have a long tail that no replica follows; it must not cause the removal of committed data.
    local = (each for each in extent.local if each.end_offset < extent.high_watermark)
    return _SizesAfter([*remote, *local])
