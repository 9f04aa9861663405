"""The readable segments of one leader epoch of a partition, found by offset (KIP-405).

A segment takes part with the offsets that it has of this epoch. Two leaders may have uploaded the same offsets, so
these ranges can overlap. Only those that no other one contains are looked at: by rising first offset they have rising
last offsets, hence the one that starts closest before an offset is the one that reaches farthest, and one bisection
answers. The others wait in the shadow until the segment that hides them is deleted.

Which of several segments is found is as in Kafka's RemoteLogLeaderEpochState: the longer one, and among those with the
same end the one that was finished last. Kafka hides a segment for ever, and a short one can hide a long one
that was finished late; both would lose offsets that are there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.remote.segments import RemoteLogSegmentMetadata


class EpochRange(NamedTuple):
    """The offsets, both included, that a segment has of an epoch. Sorts by first offset; `order` is unique."""

    first: int
    last: int
    order: int
    segment: RemoteLogSegmentMetadata


class EpochIndex:
    """Finds segments of an epoch by offset. Not thread-safe."""

    __slots__ = ("_firsts", "_lasts", "_orders", "_segments", "_shadowed", "_with_txn_index", "size_bytes")

    def __init__(self) -> None:
        # Columns of the ranges that are looked at: first offsets rise, last ones do not fall.
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._orders = array("q")  # only this keeps these numbers, so here they take the least memory
        self._segments: list[RemoteLogSegmentMetadata] = []
        # First offsets of those whose segments have a transaction index.
        self._with_txn_index: list[int] = []
        self._shadowed: list[EpochRange] = []
        self.size_bytes = 0

    def __iter__(self) -> Iterator[RemoteLogSegmentMetadata]:
        yield from self._segments
        for shadowed in self._shadowed:
            yield shadowed.segment

    def __len__(self) -> int:
        return len(self._segments) + len(self._shadowed)

    def find(self, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the segment that has an offset of the epoch."""
        at = bisect_right(self._firsts, offset) - 1
        return self._segments[at] if at >= 0 and offset <= self._lasts[at] else None

    def find_with_txn_index(self, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the first segment with a transaction index that has this or a higher offset of the epoch."""
        at = bisect_right(self._firsts, offset) - 1
        if at < 0 or self._lasts[at] < offset:
            at += 1
        if at == len(self._firsts):
            return None
        if not self._segments[at].txn_index_empty:
            return self._segments[at]
        following = bisect_right(self._with_txn_index, self._firsts[at])
        if following == len(self._with_txn_index):
            return None
        return self._segments[bisect_left(self._firsts, self._with_txn_index[following])]

    def add(self, first: int, last: int, order: int, segment: RemoteLogSegmentMetadata) -> None:
        """Take in a segment that became readable, with the offsets that it has of the epoch.

        A segment that is finished later has a higher `order`.
        """
        self.size_bytes += segment.segment_size_bytes
        if not self._firsts or (first > self._firsts[-1] and last >= self._lasts[-1]):
            self._append(first, last, order, segment)
        else:
            self._place(EpochRange(first, last, order, segment))

    def remove(self, first: int, last: int, segment: RemoteLogSegmentMetadata) -> None:
        """Drop a segment that is not readable any more."""
        self.size_bytes -= segment.segment_size_bytes
        at = bisect_left(self._firsts, first)
        if at < len(self._firsts) and self._segments[at].segment_id == segment.segment_id:
            self._take_out(at, at + 1)
            self._reveal(first, last)
        else:
            at = bisect_left(self._shadowed, first, key=_first)
            while self._shadowed[at].segment.segment_id != segment.segment_id:
                at += 1
            del self._shadowed[at]

    def _place(self, added: EpochRange) -> None:
        if not self._firsts or (added.first > self._firsts[-1] and added.last > self._lasts[-1]):
            self._append(*added)
            return
        before = bisect_right(self._firsts, added.first) - 1
        if before >= 0 and (self._lasts[before], self._orders[before]) > (added.last, added.order):
            insort(self._shadowed, added)
            return
        start = stop = bisect_left(self._firsts, added.first)
        while stop < len(self._firsts) and (self._lasts[stop], self._orders[stop]) < (added.last, added.order):
            stop += 1
        for hidden in self._take_out(start, stop):
            insort(self._shadowed, hidden)
        self._insert(start, added)

    def _insert(self, at: int, added: EpochRange) -> None:
        self._firsts.insert(at, added.first)
        self._lasts.insert(at, added.last)
        self._orders.insert(at, added.order)
        self._segments.insert(at, added.segment)
        if not added.segment.txn_index_empty:
            insort(self._with_txn_index, added.first)

    def _append(self, first: int, last: int, order: int, segment: RemoteLogSegmentMetadata) -> None:
        """Add a segment after all others, as nearly all are: they are copied in the order of offsets."""
        self._firsts.append(first)
        self._lasts.append(last)
        self._orders.append(order)
        self._segments.append(segment)
        if not segment.txn_index_empty:
            self._with_txn_index.append(first)

    def _take_out(self, start: int, stop: int) -> list[EpochRange]:
        if start == stop:
            return []
        part = slice(start, stop)
        columns = (self._firsts[part], self._lasts[part], self._orders[part], self._segments[part])
        del self._firsts[part], self._lasts[part], self._orders[part], self._segments[part]
        taken = [EpochRange(*row) for row in zip(*columns, strict=True)]
        for row in taken:
            if not row.segment.txn_index_empty:
                del self._with_txn_index[bisect_left(self._with_txn_index, row.first)]
        return taken

    def _reveal(self, first: int, last: int) -> None:
        """Check again all that a range may have hidden: what lies inside it."""
        start = bisect_left(self._shadowed, first, key=_first)
        stop = bisect_right(self._shadowed, last, key=_first)
        candidates = self._shadowed[start:stop]
        del self._shadowed[start:stop]
        for candidate in candidates:
            self._place(candidate)


def _first(row: EpochRange) -> int:
    return row.first
