"""Which segments a log may drop, by age, size and log start (pure choice; the log does the deleting)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crabka.log.segment.segment import Segment

if TYPE_CHECKING:
    from crabka.log.segment.segments import Segments

Expired = Callable[[Segment, int], bool]
"""Says of a segment and the offset at which it ends whether it may go; asked from the oldest on."""


def count_deletable(segments: Segments, *, end: int, log_end: int, expired: Expired) -> int:
    """Return how many of the oldest segments are `expired(segment, upper_bound)` and lie wholly below `end`.

    An empty last segment always stays.
    """
    count = 0
    for index, segment in enumerate(segments):
        upper_bound = segments.upper_bound(index, log_end)
        is_last = index + 1 == len(segments)
        if upper_bound > end or (is_last and segment.size == 0) or not expired(segment, upper_bound):
            break
        count += 1
    return count


def expired_by_time(now_ms: int, retention_ms: int) -> Expired:
    """Return the test for `retention.ms`. A segment that compaction has emptied keeps nothing and holds up nobody."""
    return lambda segment, _upper_bound: not segment.size or now_ms - segment.largest_timestamp() > retention_ms


def expired_by_size(total_bytes: int, retention_bytes: int) -> Expired:
    """Return the test for `retention.bytes`: as many segments go as leave at least that much."""
    surplus = total_bytes - retention_bytes

    def expired(segment: Segment, _upper_bound: int) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return expired


def expired_by_log_start(log_start_offset: int) -> Expired:
    """Return the test for segments wholly below the log start (DeleteRecords)."""
    return lambda _segment, upper_bound: upper_bound <= log_start_offset
