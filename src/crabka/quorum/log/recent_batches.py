"""The last batches of a metadata log, with their positions. Pure.

They include all unapplied records, unless the replica is far behind. So damage to the end of the log, which no image
covers, is repaired from here, and damage to an older batch does not hide later ones: without positions they could only
be found by the headers of the batches before them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

MAX_BYTES: Final = 1 << 20


class RecentBatch(NamedTuple):
    """A batch: its first offset, the segment that holds it, its position there, and its bytes."""

    offset: int
    base_offset: int
    position: int
    data: bytes


class RecentBatches:
    """The last batches, in order of their offsets, about a mebibyte of them."""

    __slots__ = ("_batches", "_size")

    def __init__(self) -> None:
        self._batches: list[RecentBatch] = []
        self._size = 0

    def add(self, batch: RecentBatch) -> None:
        """Add the next batch; the oldest ones are dropped from time to time."""
        self._batches.append(batch)
        self._size += len(batch.data)
        if self._size >= 2 * MAX_BYTES:
            self._drop_oldest()

    def find(self, offset: int) -> RecentBatch | None:
        """Return the last batch that begins at or before an offset, None if it is not recent."""
        index = bisect_right(self._batches, offset, key=lambda batch: batch.offset) - 1
        return self._batches[index] if index >= 0 else None

    def of_segment(self, base_offset: int) -> list[RecentBatch]:
        """Return the recent batches of a segment."""
        return [batch for batch in self._batches if batch.base_offset == base_offset]

    def truncate(self, end_offset: int) -> None:
        """Drop batches that reach an offset."""
        del self._batches[bisect_left(self._batches, end_offset, key=lambda batch: batch.offset) :]
        self._size = sum(len(batch.data) for batch in self._batches)

    def _drop_oldest(self) -> None:
        count = 0
        while self._size > MAX_BYTES and count < len(self._batches) - 1:
            self._size -= len(self._batches[count].data)
            count += 1
        del self._batches[:count]
