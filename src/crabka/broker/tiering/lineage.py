"""The leader epochs of a log, and which remote segments belong to the history that they tell. PURE.

The tier may hold segments of histories that were cut off, by a truncation or an unclean election. Only the epochs tell
them from those of the present log; offsets do not.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabka.remote.segments import RemoteLogSegmentMetadata


class EpochLineage:
    """Epochs with their first offsets, both rising, and where the log ends."""

    __slots__ = ("_epochs", "_starts", "end_offset")

    def __init__(self, entries: Iterable[tuple[int, int]], end_offset: int) -> None:
        kept = _with_records(list(entries))
        self._epochs = [epoch for epoch, _ in kept]
        self._starts = [start for _, start in kept]
        self.end_offset = end_offset

    @property
    def epochs(self) -> Sequence[int]:
        """All epochs, oldest first."""
        return self._epochs

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch in which an offset was written, None if it lies before all of them."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else None

    def end_of(self, epoch: int) -> int:
        """Return where an epoch of the lineage ends: where the next one begins, or where the log ends."""
        index = bisect_right(self._epochs, epoch)
        return self._starts[index] if index < len(self._starts) else self.end_offset

    def has(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether a segment holds what the log held, as Kafka's isRemoteSegmentWithinLeaderEpochs.

        Epochs of the segment from before the lineage are left aside: the log start has moved past them. Of the first
        epoch of the lineage only the part from the log start on is known, so the segment may begin before it.
        """
        own = _with_records(segment.leader_epochs)
        known = dict(zip(self._epochs, self._starts, strict=True))
        if not known or own[-1][0] < self._epochs[0] or segment.end_offset >= self.end_offset:
            return False
        shared = [(epoch, start) for epoch, start in own if epoch >= self._epochs[0]]
        for index, (epoch, start) in enumerate(shared):
            if epoch not in known:
                return False
            if index == 0 and epoch != self._epochs[0] and start < known[epoch]:
                return False
            if index + 1 < len(shared):
                if self._next_entry(epoch) != shared[index + 1]:
                    return False
            elif segment.end_offset >= self.end_of(epoch):
                return False
        return True

    def _next_entry(self, epoch: int) -> tuple[int, int] | None:
        index = bisect_right(self._epochs, epoch)
        return (self._epochs[index], self._starts[index]) if index < len(self._epochs) else None


def _with_records(entries: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out epochs that ended where they began: nothing was written in them."""
    return [
        entry for index, entry in enumerate(entries) if index + 1 == len(entries) or entries[index + 1][1] != entry[1]
    ]
