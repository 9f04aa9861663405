"""What to clean: which part of a log is dirty, whether it is worth the work, which segments become one (pure).

Follows Kafka's LogCleanerManager. A log is clean up to the end of the last cleaning; the dirty part ends at the first
segment that must not be cleaned yet: the active one, one with an undecided transaction, or one that is too young.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig

MAX_OFFSET_DISTANCE: Final = (1 << 31) - 1


class SegmentFacts(NamedTuple):
    """What planning needs to know of one sealed segment; it ends before `end_offset`."""

    base_offset: int
    end_offset: int
    size: int
    offset_index_bytes: int
    time_index_bytes: int
    largest_timestamp: int


class CleaningRange(NamedTuple):
    """The dirty part of a log, in whole segments, and the clean bytes before it."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    # Time of the oldest dirty batch, -1 if unknown; `max.compaction.lag.ms` counts from it.
    oldest_dirty_ms: int = -1

    @property
    def dirty_ratio(self) -> float:
        """The dirty share of all that a cleaning would read."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig, now_ms: int) -> bool:
        """Return whether the dirty ratio or the waiting time demands a cleaning."""
        if self.cleanable_bytes == 0:
            return False
        overdue = 0 <= self.oldest_dirty_ms < now_ms - config.max_compaction_lag_ms
        return overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio


def first_uncleanable_offset(
    segments: Sequence[SegmentFacts], first_dirty: int, *, limit: int, min_lag_ms: int, now_ms: int
) -> int:
    """Return the base of the first segment that must wait: it passes `limit` or has a record younger than the lag."""
    for segment in segments:
        too_young = min_lag_ms > 0 and segment.largest_timestamp > now_ms - min_lag_ms
        if segment.end_offset > limit or (segment.end_offset > first_dirty and too_young):
            return segment.base_offset
    return segments[-1].end_offset if segments else first_dirty


def group_segments(
    segments: Sequence[SegmentFacts], *, max_bytes: int, max_index_bytes: int
) -> list[list[SegmentFacts]]:
    """Return runs of neighbours that become one segment each: small enough even if nothing is removed from them."""
    groups: list[list[SegmentFacts]] = []
    size = offset_index_bytes = time_index_bytes = 0
    for segment in segments:
        size += segment.size
        offset_index_bytes += segment.offset_index_bytes
        time_index_bytes += segment.time_index_bytes
        fits = (
            bool(groups)
            and size <= max_bytes
            and offset_index_bytes <= max_index_bytes
            and time_index_bytes <= max_index_bytes
            and (segment.size == 0 or segment.end_offset - 1 - groups[-1][0].base_offset <= MAX_OFFSET_DISTANCE)
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, offset_index_bytes = segment.size, segment.offset_index_bytes
            time_index_bytes = segment.time_index_bytes
    return groups
