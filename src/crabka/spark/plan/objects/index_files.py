"""Index objects of remote segments, as far as planning needs them: positions of offsets, times and aborts.

Indexes have no checksum, so that a flipped bit shows only where it breaks an order; the snapshot has one.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le, lt
from typing import Final, NamedTuple

from crc32c import crc32c

from crabka.errors import CorruptDataError

_OFFSET_ENTRY: Final = struct.Struct(">II")
_TIME_ENTRY: Final = struct.Struct(">qI")
_ABORTED_ENTRY: Final = struct.Struct(">hqqqq")
_SNAPSHOT_HEADER: Final = struct.Struct(">hIi")
_SNAPSHOT_VERSION: Final = 1
_CHECKED_FROM: Final = struct.calcsize(">hI")
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
_NO_TRANSACTION: Final = -1

OFFSET_ENTRY_BYTES: Final = _OFFSET_ENTRY.size
TIME_ENTRY_BYTES: Final = _TIME_ENTRY.size


class AbortedEntry(NamedTuple):
    """An aborted transaction; `last_stable_offset` is that at the time of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class SegmentOffsets:
    """Finds bytes by offset. An entry has the last offset of a batch, or of batches that came together, and where it
    begins."""

    def __init__(self, data: bytes, base_offset: int, where: str) -> None:
        """Raises CorruptDataError."""
        entries = _without_padding(list(_unpack(_OFFSET_ENTRY, data, where)))
        self.offsets = [base_offset + relative for relative, _ in entries]
        self.positions = [position for _, position in entries]
        if not (_rises(self.offsets) and _rises(self.positions)):
            raise CorruptDataError(where, "its entries do not rise")

    def start_byte(self, offset: int) -> int:
        """Return a position at or before the batch with an offset, where a batch begins."""
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else 0

    def end_byte(self, offset: int, size_bytes: int) -> int:
        """Return a position after all records below an offset, where a batch begins or the segment ends."""
        # The batch of the entry after the first one that reaches offset - 1 begins at `offset` or later.
        at = bisect_left(self.offsets, offset - 1) + 1
        return self.positions[at] if at < len(self.positions) else size_bytes


def offset_after(data: bytes, base_offset: int, min_timestamp_us: int, where: str) -> int:
    """Return the first offset of a segment that can be of this time or later, from its time index.

    Raises CorruptDataError.
    """
    entries = _without_padding(list(_unpack(_TIME_ENTRY, data, where)))
    if not (_rises([time for time, _ in entries]) and _rises([relative for _, relative in entries], strictly=False)):
        raise CorruptDataError(where, "its entries do not rise")
    older = [relative for timestamp_ms, relative in entries if timestamp_ms * 1000 < min_timestamp_us]
    return base_offset + max(older) + 1 if older else base_offset


def last_timestamp_ms(data: bytes) -> int:
    """Return the time of the last entry of a time index, the largest of the segment; -1 if there is none."""
    entries = _without_padding(list(_TIME_ENTRY.iter_unpack(data[: len(data) - len(data) % _TIME_ENTRY.size])))
    return int(entries[-1][0]) if entries else -1


def aborted_entries(data: bytes, where: str) -> list[AbortedEntry]:
    """Return the entries of a transaction index. Raises CorruptDataError."""
    return [AbortedEntry(*fields[1:]) for fields in _unpack(_ABORTED_ENTRY, data, where)]


def first_open_transaction(data: bytes, where: str) -> int | None:
    """Return the smallest first offset of the transactions that a producer snapshot shows as open.

    Raises CorruptDataError.
    """
    if len(data) < _SNAPSHOT_HEADER.size:
        raise CorruptDataError(where, "this is no producer snapshot")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptDataError(where, f"its version is {version}, not {_SNAPSHOT_VERSION}")
    if crc != crc32c(memoryview(data)[_CHECKED_FROM:]):
        raise CorruptDataError(where, "its checksum is wrong")
    entries = _unpack(_SNAPSHOT_ENTRY, data[_SNAPSHOT_HEADER.size :], where)
    if len(entries) != count:
        raise CorruptDataError(where, f"it has {len(entries)} producers instead of {count}")
    starts = [fields[7] for fields in entries]
    return min((start for start in starts if start != _NO_TRANSACTION), default=None)


def _unpack(entry: struct.Struct, data: bytes, where: str) -> list[tuple[int, ...]]:
    if len(data) % entry.size:
        raise CorruptDataError(where, f"its {len(data)} bytes are no multiple of {entry.size}")
    return list(entry.iter_unpack(data))


def _rises(column: list[int], *, strictly: bool = True) -> bool:
    return all(map(lt if strictly else le, column, islice(column, 1, None)))


def _without_padding(entries: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Drop the zeros of an index that was not trimmed."""
    end = len(entries)
    while end and not any(entries[end - 1]):
        end -= 1
    return entries[:end]
