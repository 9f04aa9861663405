"""The index of aborted transactions of a segment (`.txnindex`), 34 bytes per entry (Kafka's AbortedTxn).

    version int16 | producerId int64 | firstOffset int64 | lastOffset int64 | lastStableOffset int64

An entry lies in the segment that holds the abort marker (`last_offset`). A segment without one has no file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from crabka.errors import CorruptDataError
from crabka.formats.index_entries import require_rising, require_whole
from crabka.ports import Buffer

_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction; `last_stable_offset` is the one after its marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class IndexNote(NamedTuple):
    """Size and CRC-32C that an index file must have."""

    size_bytes: int
    crc: int


# Matches no file: for an index that is known to be wrong.
WRONG_INDEX: Final = IndexNote(-1, 0)


def note_of(content: Buffer) -> IndexNote:
    """Return the note of a file with this content; a missing file has the note of an empty one."""
    return IndexNote(len(content), crc32c(content))


def encode_aborted(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return the file bytes of the entries."""
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode_aborted(data: Buffer, path: str = "") -> list[AbortedTransaction]:
    """Read an index file. Raises CorruptDataError when size, version or order is wrong."""
    require_whole(data, ENTRY_SIZE, path)
    entries: list[AbortedTransaction] = []
    for version, *fields in _ENTRY.iter_unpack(data):
        if version != VERSION:
            raise CorruptDataError(path, f"an entry has version {version}, known is {VERSION}")
        entries.append(AbortedTransaction(*fields))
    require_rising([entry.last_offset for entry in entries], path)
    return entries


def overlapping(
    entries: Sequence[AbortedTransaction], fetch_offset: int, upper_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Return the entries that touch the fetched range, and whether later segments can hold no more of them.

    The last stable offset of an entry at or above the upper bound means that every transaction decided later
    began above it.
    """
    found = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_offset:
            return found, True
    return found, False
