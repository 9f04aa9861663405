"""Aborted transactions of ranges of the tier (KIP-98).

A transaction that wrote into a segment may be aborted by a marker in a later one, whose index then has the entry; or by
a marker that is not in the tier yet, of which only the broker knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from crabka.spark.plan.index_files import AbortedEntry
from crabka.spark.plan.lineage import TierPart
from crabka.spark.plan.ranges import AbortedSpans
from crabka.spark.plan.segment_objects import SegmentObjects

_STEP = 64


def find_aborted(
    parts: Sequence[TierPart], all_parts: Sequence[TierPart], objects: SegmentObjects
) -> list[AbortedEntry]:
    """Return the transactions that may concern `parts`, from their indexes and those of the following parts.

    Both are in order, and `all_parts` has all that the tier has of the partition. It ends early at an entry that shows
    that nothing before the end of `parts` was open any more.
    """
    if not parts:
        return []
    end = parts[-1].end
    entries = [entry for found in objects.for_all(parts, lambda part: objects.aborted(part.segment)) for entry in found]
    following = [part for part in all_parts if part.start >= end]
    for start in range(0, len(following), _STEP):
        if any(entry.last_stable_offset >= end for entry in entries):
            break
        some = following[start : start + _STEP]
        entries += [e for found in objects.for_all(some, lambda part: objects.aborted(part.segment)) for e in found]
    return sorted(set(entries), key=lambda entry: (entry.first_offset, entry.producer_id))


def spans_within(entries: Sequence[AbortedEntry], start: int, end: int) -> AbortedSpans:
    """Return the transactions that have records from `start` up to, not including, `end`."""
    return tuple(
        (entry.producer_id, entry.first_offset, entry.last_offset)
        for entry in entries
        if entry.first_offset < end and entry.last_offset >= start
    )
