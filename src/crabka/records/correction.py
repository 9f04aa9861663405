"""Finds the one byte that was changed in a batch, from its checksum. PURE.

CRC-32C is linear: a change of one byte changes the checksum by a value that depends on the change and on how many bytes
follow, and on nothing else. The syndrome (stored checksum xor computed one) is that value, so it is stepped back over
the batch byte by byte and compared with the effects of the 255 changes of the byte there. A byte of the stored checksum
itself shows as a syndrome with one byte.

A correction counts only if exactly one change fits and the corrected batch is sound: its header makes sense, it
decompresses, and all of its records decode with offsets that agree with the header.

Damage of a kind that is looked for is corrected into what was written, or not at all: what was written always fits, so
that it is either the only change that does or one of several. Larger damage has a syndrome like a random number, and
fits some change of one byte by chance: with n bytes, about n * 255 / 2^32 of such damage does, or n * 8 / 2^32 if only
changes of one bit count. The limits below keep that under 1 in 256, and under 1 in 16,000 for a batch of 1 KiB. Most of
these wrong corrections leave lengths, counts or compressed data broken, because the real damage is still there, and are
refused for it. What is left is damage inside of values. That is accepted where it is used: when no other copy exists,
the choice is between a batch that is lost for certain and one that is right with great probability, and the log says
so.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from crabka.ports import Buffer
from crabka.records.errors import CorruptBatchError
from crabka.records.header import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    MAGIC_V2,
    BatchHeader,
    batch_crc,
    parse_header,
)
from crabka.records.record import DEFAULT_MAX_DECOMPRESSED_BYTES, iterate_records

# Every change of a byte is looked for up to here, and changes of one bit up to there: 1 in 256 by chance.
MAX_BYTE_SEARCH: Final = 64 * 1024
MAX_BIT_SEARCH: Final = 2 * 1024 * 1024

_POLYNOMIAL: Final = 0x82F63B78
_CRC_BYTES: Final = ATTRIBUTES_POSITION - CRC_POSITION
_UNUSED_ATTRIBUTES: Final = ~0x7F
_MAX_CODEC: Final = 4
_NONE: Final = -1


def _effect_of(change: int) -> int:
    for _ in range(8):
        change = change >> 1 ^ (_POLYNOMIAL if change & 1 else 0)
    return change


# What a change of the last byte does to the checksum, and the way back.
_EFFECTS: Final = tuple(_effect_of(change) for change in range(256))
_CHANGES: Final = {effect: change for change, effect in enumerate(_EFFECTS) if change}
_BITS: Final = {_EFFECTS[1 << bit]: 1 << bit for bit in range(8)}
_BY_TOP_BYTE: Final = {effect >> 24: change for change, effect in enumerate(_EFFECTS)}
_BACK: Final = tuple((_EFFECTS[_BY_TOP_BYTE[top]] << 8 ^ _BY_TOP_BYTE[top]) & 0xFFFFFFFF for top in range(256))


class Change(NamedTuple):
    """One byte of a batch: where it lies, what is there and what was written."""

    position: int
    old: int
    new: int

    def __str__(self) -> str:
        return f"byte {self.position} from {self.old:#04x} to {self.new:#04x}"


class Correction(NamedTuple):
    """A batch as it was written."""

    data: bytes
    changes: tuple[Change, ...]


def correct_content(batch: Buffer, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> Correction | None:
    """Return a batch with its checksum made to fit by the only change of one byte that does, None if there is none.

    `batch` has the right length; only what the checksum covers, and the checksum, are looked at. May take a second for
    the largest batches that are looked at.
    """
    view = memoryview(batch).cast("B")
    if len(view) < HEADER_SIZE or len(view) > MAX_BIT_SEARCH:
        return None
    syndrome = parse_header(view).crc ^ batch_crc(view, 0, len(view))
    found = _fitting(syndrome, len(view))
    if len(found) != 1:
        return None
    ((position, mask),) = found
    data = bytearray(view)
    data[position] ^= mask
    corrected = bytes(data)
    if not is_sound(corrected, max_decompressed_bytes):
        return None
    return Correction(corrected, (Change(position, view[position], data[position]),))


def _fitting(syndrome: int, size: int) -> list[tuple[int, int]]:
    """Return the changes (position, mask) that have this effect on the checksum of a batch."""
    if not syndrome:
        return []
    found = [
        (CRC_POSITION + index, syndrome >> shift)
        for index, shift in enumerate(range(8 * (_CRC_BYTES - 1), -1, -8))
        if syndrome == syndrome & 0xFF << shift
    ]
    known, back = _CHANGES if size <= MAX_BYTE_SEARCH else _BITS, _BACK
    state = syndrome
    for position in range(size - 1, ATTRIBUTES_POSITION - 1, -1):
        if state in known:
            found.append((position, known[state]))
        state = (state << 8 & 0xFFFFFFFF) ^ back[state >> 24]
    return found


def is_sound(batch: Buffer, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> bool:
    """Return whether header and records of a batch agree with each other; the checksum is the caller's matter."""
    header = parse_header(batch)
    if header.size_in_bytes != len(batch) or not _is_plausible(header):
        return False
    last, count = header.base_offset - 1, 0
    try:
        for record in iterate_records(batch, header, max_decompressed_bytes):
            if not last < record.offset <= header.last_offset:
                return False
            last, count = record.offset, count + 1
    except CorruptBatchError:
        return False
    # Compaction may have left some records, or none.
    return count <= header.last_offset_delta + 1


def _is_plausible(header: BatchHeader) -> bool:
    return (
        header.magic == MAGIC_V2
        and header.codec <= _MAX_CODEC
        and not header.attributes & _UNUSED_ATTRIBUTES
        and header.last_offset_delta >= 0
        and header.records_count >= 0
        and min(header.producer_id, header.producer_epoch, header.base_sequence) >= _NONE
    )
