"""Offsets of batches from their headers alone."""

from __future__ import annotations

from crabka.records.header import EXTENT_STRUCT, LOG_OVERHEAD


def next_offset_of(records: bytes | memoryview, offset: int) -> int:
    """Return the offset after the last whole batch, `offset` if there is none."""
    position, size = 0, len(records)
    while position + EXTENT_STRUCT.size <= size:
        base_offset, length, last_delta = EXTENT_STRUCT.unpack_from(records, position)
        position += LOG_OVERHEAD + length
        if length <= 0 or position > size:
            break
        offset = max(offset, base_offset + last_delta + 1)
    return offset


def first_offsets_of(records: bytes | memoryview) -> tuple[int, int] | None:
    """Return the first and last offset of the first batch, None if it is not whole."""
    if len(records) < EXTENT_STRUCT.size:
        return None
    base_offset, length, last_delta = EXTENT_STRUCT.unpack_from(records)
    if not 0 < length <= len(records) - LOG_OVERHEAD:
        return None
    return base_offset, base_offset + last_delta
