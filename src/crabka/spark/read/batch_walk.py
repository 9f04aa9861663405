"""Offsets of batches from their headers alone."""

from __future__ import annotations

import struct
from typing import Final

# Base offset, length, (epoch, magic, checksum, attributes), last offset delta.
_BATCH: Final = struct.Struct(">qi11xi")
_LOG_OVERHEAD: Final = 12


def next_offset_of(records: bytes | memoryview, offset: int) -> int:
    """Return the offset after the last whole batch, `offset` if there is none."""
    position, size = 0, len(records)
    while position + _BATCH.size <= size:
        base_offset, length, last_delta = _BATCH.unpack_from(records, position)
        position += _LOG_OVERHEAD + length
        if length <= 0 or position > size:
            break
        offset = max(offset, base_offset + last_delta + 1)
    return offset


def first_offsets_of(records: bytes | memoryview) -> tuple[int, int] | None:
    """Return the first and last offset of the first batch, None if it is not whole."""
    if len(records) < _BATCH.size:
        return None
    base_offset, length, last_delta = _BATCH.unpack_from(records)
    if not 0 < length <= len(records) - _LOG_OVERHEAD:
        return None
    return base_offset, base_offset + last_delta
