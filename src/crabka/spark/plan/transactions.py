"""Aborted transactions of ranges of the tier (KIP-98).

A transaction that wrote into a segment may be aborted by a marker in a later one, whose index then has the entry, also
if nothing else of that segment is read; or by a marker that the tier does not have, of which only the leader knows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter

from crabka.formats.transaction_index import AbortedTransaction
from crabka.spark.plan.lineage import TierPart
from crabka.spark.plan.ranges import AbortedSpans
from crabka.spark.plan.segment_objects import SegmentObjects

_STEP = 64

AskLeader = Callable[[int], Sequence[AbortedTransaction]]
"""Returns the aborted transactions that reach from before an offset to it or farther, as far as they lie before it."""


class AbortedTable:
    """The aborted transactions of a partition, found by the offsets that they reach over."""

    def __init__(self, entries: Sequence[AbortedTransaction]) -> None:
        self._entries = sorted(entries, key=lambda entry: (entry.first_offset, entry.producer_id, entry.last_offset))
        self._firsts = [entry.first_offset for entry in self._entries]
        # Up to here no transaction reaches farther; it rises, so that it can be searched.
        self._reaches = list(accumulate((entry.last_offset for entry in self._entries), max))

    def within(self, start: int, end: int) -> AbortedSpans:
        """Return the transactions that have records from `start` up to, not including, `end`."""
        some = self._entries[bisect_left(self._reaches, start) : bisect_left(self._firsts, end)]
        return tuple(
            (entry.producer_id, entry.first_offset, entry.last_offset) for entry in some if entry.last_offset >= start
        )


def find_aborted(
    parts: Sequence[TierPart],
    all_parts: Sequence[TierPart],
    objects: SegmentObjects,
    ask_leader: AskLeader | None = None,
) -> list[AbortedTransaction]:
    """Return the transactions that may concern `parts`, from the indexes of all parts from there on.

    Both are in order, and `all_parts` has all that the tier has of the partition, as far as it counts. Where the tier
    has a gap or ends, the leader is asked. The search ends early at an entry that shows that nothing before the end of
    `parts` was open any more.
    """
    runs = list(_runs(parts))
    if not runs:
        return []
    firsts = [bisect_right(all_parts, run.start, key=attrgetter("end")) for run in runs]
    found: set[AbortedTransaction] = set()
    # Where the next run begins its own search goes on: what ends that one ends this one, too.
    for run, first, limit in zip(runs, firsts, [*firsts[1:], len(all_parts)], strict=True):
        found.update(_search(all_parts[first:limit], run.stop, objects, ask_leader, after=all_parts[limit : limit + 1]))
    return sorted(found)


def _runs(parts: Sequence[TierPart]) -> Iterator[range]:
    """Yield the offsets of parts, neighbours as one."""
    start = end = -1
    for part in parts:
        if part.start != end:
            if end > start:
                yield range(start, end)
            start = part.start
        end = part.end
    if end > start:
        yield range(start, end)


def _search(
    parts: Sequence[TierPart],
    end: int,
    objects: SegmentObjects,
    ask_leader: AskLeader | None,
    *,
    after: Sequence[TierPart],
) -> Iterator[AbortedTransaction]:
    """Yield what the markers from the first part on aborted, until nothing below `end` can be open any more."""
    at = 0
    upto = bisect_left(parts, end, key=attrgetter("start"))
    while at < len(parts):
        some = parts[at:upto]
        for number, entries in enumerate(objects.for_all(some, lambda part: _own_entries(part, objects)), at):
            yield from entries
            if any(entry.last_stable_offset >= end for entry in entries):
                return
            following = parts[number + 1 : number + 2] or after
            if ask_leader is not None and not (following and following[0].start == parts[number].end):
                yield from ask_leader(parts[number].end)
        at, upto = upto, min(upto + _STEP, len(parts))


def _own_entries(part: TierPart, objects: SegmentObjects) -> list[AbortedTransaction]:
    """Return the transactions whose markers a part has.

    The index of its segment may have others, from a tail that an unclean election took out of the history.
    """
    return [entry for entry in objects.aborted(part.segment) if part.start <= entry.last_offset < part.end]
