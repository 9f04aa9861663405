"""From fetched batches to the values of events, in portions.

Nearly every batch of the metadata topic has one small record without a key, since brokers wait for one event before
they publish the next; such a batch is read here in one step. All others go the way of any consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import crc32c

from crabka.clients.fetcher.isolation import visible_batches
from crabka.records.errors import CorruptBatchError
from crabka.records.header import ATTRIBUTES_POSITION, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, UNTIMED_HEADER_STRUCT
from crabka.records.varint import encode_varint

Portion = tuple[list[tuple[int, bytes | None]], int, int]
"""Offsets with values, the offset after them, and the leader epoch of the batch before that offset."""

NO_EPOCH: Final = -1

_unpack_header = UNTIMED_HEADER_STRUCT.unpack_from
# Compressed, transactional and control batches.
_UNUSUAL_ATTRIBUTES: Final = 0x37
# Attributes, deltas of timestamp and offset, and a key of length -1.
_BEFORE_LENGTH: Final = b"\x00\x00\x00\x01"
_MOST_HEAD_BYTES: Final = 15
_NO_HEADERS: Final = 0x00
_KNOWN_SIZES: Final = 4_096


def portions(data: bytes, start_offset: int, size: int) -> Iterator[Portion]:
    """Yield the values from an offset on, up to `size` at a time, each portion of one epoch. Raises CorruptBatchError.

    An incomplete batch at the end is left out, as brokers may cut it.
    """
    records: list[tuple[int, bytes | None]] = []
    next_offset = yielded_to = start_offset
    epoch = NO_EPOCH
    position, end = 0, len(data)
    while position + HEADER_SIZE <= end:
        base_offset, length, leader_epoch, magic, checksum, attributes, last_delta, count = _unpack_header(
            data, position
        )
        if length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatchError(f"the batch at offset {base_offset} claims a length of {length} bytes")
        stop = position + LOG_OVERHEAD + length
        if stop > end:
            break
        # Older formats have their checksum there.
        batch_epoch = leader_epoch if magic == MAGIC_V2 else NO_EPOCH
        if batch_epoch != epoch:
            if next_offset > yielded_to:
                yield records, next_offset, epoch
                records, yielded_to = [], next_offset
            epoch = batch_epoch
        value = None
        if count == 1 and magic == MAGIC_V2 and not attributes & _UNUSUAL_ATTRIBUTES and base_offset >= start_offset:
            value = _only_value(data, position, stop, checksum)
        if value is None:
            records += _values_of(data[position:stop], start_offset)
        else:
            records.append((base_offset, value))
        if base_offset + last_delta >= next_offset:
            next_offset = base_offset + last_delta + 1
        position = stop
        while len(records) > size:
            yielded_to = records[size][0]
            yield records[:size], yielded_to, epoch
            del records[:size]
    if next_offset > yielded_to:
        yield records, next_offset, epoch


def _only_value(data: bytes, position: int, stop: int, checksum: int) -> bytes | None:
    """Return the value of a batch's only record, None if the record has more than a value or the batch is broken."""
    start = position + HEADER_SIZE
    head = _head_of_value(stop - start)
    if head is None or not data.startswith(head, start) or data[stop - 1] != _NO_HEADERS:
        return None
    if crc32c.crc32c(data[position + ATTRIBUTES_POSITION : stop]) != checksum:
        return None
    return data[start + len(head) : stop - 1]


@lru_cache(_KNOWN_SIZES)
def _head_of_value(size: int) -> bytes | None:
    """Return the bytes before the value, in a record of a size that has neither key nor headers nor deltas."""
    for length in range(max(0, size - _MOST_HEAD_BYTES), size):
        inner = _BEFORE_LENGTH + encode_varint(length)
        head = encode_varint(len(inner) + length + 1) + inner
        if len(head) + length + 1 == size:
            return head
    return None


def _values_of(batch: bytes, start_offset: int) -> list[tuple[int, bytes | None]]:
    (visible,) = visible_batches(batch, start_offset, None)
    return [(record.offset, record.value) for record in visible.records]
