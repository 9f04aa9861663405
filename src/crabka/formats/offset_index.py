"""The sparse offset index of a segment (`.index`): relative offset and file position, 4 bytes each, big endian.

An entry (o, p) says: the batch at position p ends with offset o, so everything up to o lies below p plus that
batch. Owns the entries in memory and their bytes; the segment decides when to add one and writes the file.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from crabka.formats.index_entries import require_rising, whole_entries
from crabka.ports import Buffer

ENTRY_SIZE: Final = 8
MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
_SWAP: Final = sys.byteorder == "little"


class OffsetIndex:
    """Entries of one segment, rising in both columns."""

    __slots__ = ("_offsets", "_positions", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets = array("I")
        self._positions = array("I")

    @classmethod
    def decode(cls, base_offset: int, data: Buffer, path: str = "") -> OffsetIndex:
        """Read an index file; zero entries after the last real one (an untrimmed file) are ignored.

        Raises CorruptDataError when the size is no multiple of 8 or the entries do not rise.
        """
        words = array("I")
        words.frombytes(whole_entries(data, ENTRY_SIZE, path))
        if _SWAP:
            words.byteswap()
        index = cls(base_offset)
        index._offsets, index._positions = words[0::2], words[1::2]
        require_rising(index._offsets, path)
        require_rising(index._positions, path)
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last_offset(self) -> int:
        """The largest indexed offset; one less than the base offset if there is no entry."""
        return self.base_offset + (self._offsets[-1] if self._offsets else -1)

    @property
    def last_position(self) -> int:
        """The largest indexed position, 0 if there is no entry."""
        return self._positions[-1] if self._positions else 0

    @property
    def positions(self) -> Sequence[int]:
        """All indexed positions, rising."""
        return self._positions

    def entries(self) -> list[tuple[int, int]]:
        """Return all (absolute offset, position) pairs."""
        return [(self.base_offset + o, p) for o, p in zip(self._offsets, self._positions, strict=True)]

    def append(self, offset: int, position: int) -> None:
        """Add an entry for the batch at `position` whose last offset is `offset`."""
        # Readers in threads find by offset: the position must be there first.
        self._positions.append(position)
        self._offsets.append(offset - self.base_offset)

    def floor_position(self, offset: int) -> int:
        """Return the position of the last indexed batch that ends at or before `offset`, 0 if none does."""
        relative = offset - self.base_offset
        if relative < 0:
            return 0
        index = bisect_right(self._offsets, relative) - 1
        return self._positions[index] if index >= 0 else 0

    def floor_entry(self, offset: int) -> tuple[int, int] | None:
        """Return the last entry (absolute offset, position) that is not above `offset`, None if there is none."""
        index = bisect_right(self._offsets, offset - self.base_offset) - 1 if offset >= self.base_offset else -1
        return (self.base_offset + self._offsets[index], self._positions[index]) if index >= 0 else None

    def batch_start_before(self, position: int) -> int:
        """Return the last indexed position below the given one, 0 if there is none."""
        index = bisect_left(self._positions, position) - 1
        return self._positions[index] if index >= 0 else 0

    def position_after(self, offset: int) -> int | None:
        """Return an indexed position after the batch that holds `offset`, None if the index does not reach there."""
        index = bisect_left(self._offsets, max(offset - self.base_offset, 0)) + 1
        return self._positions[index] if index < len(self._positions) else None

    def truncate(self, end_offset: int) -> None:
        """Drop the entries at or above `end_offset`."""
        keep = bisect_left(self._offsets, max(end_offset - self.base_offset, 0))
        del self._offsets[keep:], self._positions[keep:]

    def encode(self, first_entry: int = 0) -> bytes:
        """Return the file bytes of the entries from `first_entry` on."""
        words = array("I", bytes(ENTRY_SIZE * (len(self._offsets) - first_entry)))
        words[0::2] = self._offsets[first_entry:]
        words[1::2] = self._positions[first_entry:]
        if _SWAP:
            words.byteswap()
        return words.tobytes()
