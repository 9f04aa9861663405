"""Offsets of batches from their headers alone."""

from __future__ import annotations

import struct
from typing import Final

# Base offset, length, (epoch, magic, checksum, attributes), last offset delta.
_BATCH: Final = struct.Struct(">qi11xi")
_LOG_OVERHEAD: Final = 12


def next_offset_of(records: bytes | memoryview, offset: int) -> int:
    """Return the offset behind the last whole batch, `offset` if there is none."""
    position, size = 0, len(records)
    while position + _BATCH.size <= size:
        base_offset, length, last_delta = _BATCH.unpack_from(records, position)
        position += _LOG_OVERHEAD + length
        if length <= 0 or position > size:
            break
        offset = max(offset, base_offset + last_delta + 1)
    return offset
