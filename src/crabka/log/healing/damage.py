"""What is damaged in a log: ranges of a segment whose batches are not what was written. PURE.

A range begins where the last whole batch before it ends and ends where the next whole one begins, in bytes and in
offsets. Reads leave ranges out (`PartitionLog.read`), repairs fill them (`log_healing`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class DamagedRange(NamedTuple):
    """Offsets [offset, end_offset) of a log in [position, end_position) of a segment."""

    base_offset: int
    position: int
    end_position: int
    offset: int
    end_offset: int
    reason: str = ""


class LogDamage:
    """The damaged ranges of one log, in order; most logs have none."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: tuple[DamagedRange, ...] = ()

    def __len__(self) -> int:
        return len(self._ranges)

    def __iter__(self) -> Iterator[DamagedRange]:
        return iter(self._ranges)

    def replace(self, base_offset: int, found: Iterable[DamagedRange]) -> None:
        """Replace the ranges of a segment by these."""
        others = [each for each in self._ranges if each.base_offset != base_offset]
        self._ranges = tuple(sorted([*others, *found], key=lambda each: each.offset))

    def keep(self, base_offsets: Iterable[int]) -> None:
        """Forget the ranges of all other segments, which are gone."""
        kept = set(base_offsets)
        self._ranges = tuple(each for each in self._ranges if each.base_offset in kept)

    def truncate(self, end_offset: int) -> None:
        """Forget ranges at or above the new log end."""
        self._ranges = tuple(each for each in self._ranges if each.offset < end_offset)

    def at(self, offset: int) -> DamagedRange | None:
        """Return the range that holds an offset."""
        index = bisect_right(self._ranges, offset, key=lambda each: each.offset) - 1
        found = self._ranges[index] if index >= 0 else None
        return found if found is not None and offset < found.end_offset else None

    def before(self, base_offset: int, offset: int) -> DamagedRange | None:
        """Return the last range of a segment that ends at or before an offset."""
        found = [each for each in self._ranges if each.base_offset == base_offset and each.end_offset <= offset]
        return found[-1] if found else None

    def after(self, base_offset: int, offset: int) -> DamagedRange | None:
        """Return the first range of a segment that begins above an offset."""
        found = (each for each in self._ranges if each.base_offset == base_offset and each.offset > offset)
        return next(found, None)
