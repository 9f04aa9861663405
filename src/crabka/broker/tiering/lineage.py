"""The leader epochs of a log, and which remote segments belong to the history that they tell. PURE.

The tier may hold segments of histories that were cut off, by a truncation or an unclean election. Only the epochs tell
them from those of the present log; offsets do not.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabka.remote.segments import RemoteLogSegmentMetadata


class EpochLineage:
    """Epochs with their first offsets, both rising, and where the log ends."""

    __slots__ = ("_epochs", "_ranges", "_starts", "end_offset")

    def __init__(self, entries: Iterable[tuple[int, int]], end_offset: int) -> None:
        kept = _with_records(list(entries))
        self._epochs = [epoch for epoch, _ in kept]
        self._starts = [start for _, start in kept]
        self.end_offset = end_offset
        # First offset and end by epoch: looked at for each of perhaps a hundred thousand segments.
        ends = [*self._starts[1:], end_offset]
        self._ranges = {epoch: (start, ends[index]) for index, (epoch, start) in enumerate(kept)}

    @property
    def epochs(self) -> Sequence[int]:
        """All epochs, oldest first."""
        return self._epochs

    @property
    def start_offset(self) -> int:
        """Where the history begins that the epochs tell; the end of a log that has none."""
        return self._starts[0] if self._starts else self.end_offset

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
        if segment.end_offset >= self.end_offset or not self._epochs:
            return False
        if len(segment.leader_epochs) == 1:
            return self._has_part(*segment.leader_epochs[0], segment.end_offset)
        first = self._epochs[0]
        shared = [entry for entry in _with_records(segment.leader_epochs) if entry[0] >= first]
        if not shared or any(self._next_entry(epoch) != after for (epoch, _), after in pairwise(shared)):
            return False
        return self._has_part(*shared[0], shared[1][1] - 1 if len(shared) > 1 else segment.end_offset) and (
            self._has_part(*shared[-1], segment.end_offset)
        )

    def _has_part(self, epoch: int, start: int, last_offset: int) -> bool:
        """Return whether the records of an epoch in a segment are those of the lineage."""
        known = self._ranges.get(epoch)
        return known is not None and (start >= known[0] or epoch == self._epochs[0]) and last_offset < known[1]

    def _next_entry(self, epoch: int) -> tuple[int, int] | None:
        index = bisect_right(self._epochs, epoch)
        return (self._epochs[index], self._starts[index]) if index < len(self._epochs) else None


def _with_records(entries: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out epochs that ended where they began: nothing was written in them."""
    return [
        entry for index, entry in enumerate(entries) if index + 1 == len(entries) or entries[index + 1][1] != entry[1]
    ]
