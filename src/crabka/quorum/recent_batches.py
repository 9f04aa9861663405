"""Where the last batches of a metadata log lie. PURE.

Without it a batch is found by the headers of those before it, so that damage to one of them would hide all that follow,
also what a replica must apply next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

# Far more than a replica appends before it applies them.
MAX_KEPT: Final = 4096


class BatchPlace(NamedTuple):
    """A batch by its first offset: the segment that holds it and its position there."""

    offset: int
    base_offset: int
    position: int


class RecentBatches:
    """The last batches, in order of their offsets."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: list[BatchPlace] = []

    def add(self, place: BatchPlace) -> None:
        """Take in the next batch; the oldest ones go from time to time."""
        self._places.append(place)
        if len(self._places) >= 2 * MAX_KEPT:
            del self._places[:MAX_KEPT]

    def find(self, offset: int) -> BatchPlace | None:
        """Return the last batch that begins at or before an offset, None if that is not a recent one."""
        index = bisect_right(self._places, offset, key=lambda place: place.offset) - 1
        return self._places[index] if index >= 0 else None

    def truncate(self, end_offset: int) -> None:
        """Forget batches that begin at or after an offset."""
        del self._places[bisect_left(self._places, end_offset, key=lambda place: place.offset) :]
