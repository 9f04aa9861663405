"""The segments of a log in the order of their base offsets; the last one is active."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from crabka.log.segment.segment import Segment


class Segments:
    """Never empty once the log is open."""

    __slots__ = ("_bases", "_items")

    def __init__(self, items: list[Segment]) -> None:
        self._items = sorted(items, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._items]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __getitem__(self, index: int) -> Segment:
        return self._items[index]

    @property
    def active(self) -> Segment:
        """The segment that appends go to."""
        return self._items[-1]

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._items[0]

    @property
    def bases(self) -> list[int]:
        """The base offsets, rising."""
        return list(self._bases)

    @property
    def size_bytes(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.size for segment in self._items)

    def add(self, segment: Segment) -> None:
        """Add a segment after all others."""
        self._items.append(segment)
        self._bases.append(segment.base_offset)

    def floor_index(self, offset: int) -> int:
        """Return the index of the segment that holds `offset`; the first one for offsets before it."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def holding(self, offset: int) -> Segment:
        """Return the segment that holds `offset`; the first one for offsets before it."""
        return self._items[self.floor_index(offset)]

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segment that holds `offset` and all later ones."""
        return self._items[self.floor_index(offset) :]

    def upper_bound(self, index: int, log_end_offset: int) -> int:
        """Return the offset at which the segment at `index` ends: the next base, or the log end."""
        return self._bases[index + 1] if index + 1 < len(self._bases) else log_end_offset

    def drop_first(self, count: int) -> list[Segment]:
        """Take the oldest segments out and return them."""
        dropped = self._items[:count]
        del self._items[:count], self._bases[:count]
        return dropped

    def drop_from(self, index: int) -> list[Segment]:
        """Take all segments from `index` on out and return them."""
        dropped = self._items[index:]
        del self._items[index:], self._bases[index:]
        return dropped

    def replace(self, index: int, count: int, segment: Segment) -> None:
        """Put one segment in the place of `count` of them from `index` on."""
        self._items[index : index + count] = [segment]
        self._bases[index : index + count] = [segment.base_offset]
