"""The sparse time index of a segment (`.timeindex`): timestamp (8 bytes) and relative offset (4 bytes), big endian.

An entry (t, o) says: no batch up to the one that ends with o has a larger timestamp than t. Owns the entries in
memory and their bytes; the segment decides when to add one and writes the file.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from crabka.formats.index_entries import require_rising, whole_entries
from crabka.ports import Buffer
from crabka.records.header import NO_TIMESTAMP

_ENTRY: Final = struct.Struct(">qI")
ENTRY_SIZE: Final = _ENTRY.size


class TimeIndexEntry(NamedTuple):
    """A timestamp with the last offset of the batch that has it."""

    timestamp: int
    offset: int


class TimeIndex:
    """Entries of one segment, rising in both columns."""

    __slots__ = ("_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("I")

    @classmethod
    def decode(cls, base_offset: int, data: Buffer, path: str = "") -> TimeIndex:
        """Read an index file; zero entries after the last real one (an untrimmed file) are ignored.

        Raises CorruptDataError when the size is no multiple of 12 or the entries do not rise.
        """
        entries = list(_ENTRY.iter_unpack(whole_entries(data, ENTRY_SIZE, path)))
        timestamps, offsets = [entry[0] for entry in entries], [entry[1] for entry in entries]
        require_rising(timestamps, path)
        # Kafka lets a later entry repeat the offset of the one before (TimeIndex.maybeAppend).
        require_rising(offsets, path, strictly=False)
        index = cls(base_offset)
        index._timestamps, index._offsets = array("q", timestamps), array("I", offsets)
        return index

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def last(self) -> TimeIndexEntry:
        """The entry with the largest timestamp; (-1, base offset) if there is none."""
        if not self._timestamps:
            return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
        return TimeIndexEntry(self._timestamps[-1], self.base_offset + self._offsets[-1])

    def entries(self) -> list[TimeIndexEntry]:
        """Return all entries with absolute offsets."""
        pairs = zip(self._timestamps, self._offsets, strict=True)
        return [TimeIndexEntry(timestamp, self.base_offset + offset) for timestamp, offset in pairs]

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than all before."""
        if timestamp > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            # Readers in threads find by timestamp: the offset must be there first.
            self._offsets.append(offset - self.base_offset)
            self._timestamps.append(timestamp)

    def floor(self, timestamp: int) -> TimeIndexEntry:
        """Return the last entry whose timestamp is not above the given one; (-1, base offset) if there is none."""
        index = bisect_right(self._timestamps, timestamp) - 1
        if index < 0:
            return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
        return TimeIndexEntry(self._timestamps[index], self.base_offset + self._offsets[index])

    def first_offset_since(self, timestamp: int) -> int:
        """Return the first offset that can have this timestamp or a later one."""
        older = self.floor(timestamp - 1)
        return self.base_offset if older.timestamp == NO_TIMESTAMP else older.offset + 1

    def truncate(self, end_offset: int) -> None:
        """Drop the entries at or above `end_offset`."""
        keep = bisect_left(self._offsets, max(end_offset - self.base_offset, 0))
        del self._timestamps[keep:], self._offsets[keep:]

    def encode(self, first_entry: int = 0) -> bytes:
        """Return the file bytes of the entries from `first_entry` on."""
        pairs = zip(self._timestamps[first_entry:], self._offsets[first_entry:], strict=True)
        return b"".join(_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs)
