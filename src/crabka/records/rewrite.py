"""Batches changed by the broker: log append time, another codec, and the look inside that some topics need.

All functions decompress or copy a whole batch, so the broker calls them in a thread for anything but small batches.
Offsets, producer fields and the leader epoch stay as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from crabka.ports import Buffer
from crabka.records.compression import compress
from crabka.records.header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    parse_header,
    sealed,
)
from crabka.records.record import DEFAULT_MAX_DECOMPRESSED_BYTES, Record, iterate_records, records_payload

MAX_TIMESTAMP_POSITION = 35
MAX_INVALID_RECORDS: Final = 1000
"""So many refused records of a batch are listed: an answer with each of a million would be a bomb of its own."""
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")


class InvalidRecord(NamedTuple):
    """A record that a topic does not accept, by its index in the batch."""

    record_index: int
    message: str


def with_log_append_time(batch: Buffer, now_ms: int) -> bytes:
    """Return the batch stamped with the broker's time: type and maximum timestamp; record deltas stay."""
    header = parse_header(batch)
    changed = bytearray(batch)
    _ATTRIBUTES.pack_into(changed, ATTRIBUTES_POSITION, header.attributes | LOG_APPEND_TIME_FLAG)
    _TIMESTAMP.pack_into(changed, MAX_TIMESTAMP_POSITION, now_ms)
    return sealed(changed)


def recompress(
    batch: Buffer,
    codec: int,
    level: int | None = None,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """Return the batch with its records packed by another codec; equal records, equal header otherwise.

    Raises CorruptBatchError when the batch cannot be decompressed within the limit.
    """
    header = parse_header(batch)
    payload = records_payload(batch, header, max_decompressed_bytes)
    changed = bytearray(memoryview(batch)[:HEADER_SIZE])
    _ATTRIBUTES.pack_into(changed, ATTRIBUTES_POSITION, header.attributes & ~CODEC_MASK | codec)
    changed += compress(codec, payload, level)
    return sealed(changed)


def validate_records(
    batch: Buffer,
    *,
    keys_required: bool,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[InvalidRecord]:
    """Walk the records as the broker of a compacted or recompressing topic must; return what it refuses.

    The walk ends when MAX_INVALID_RECORDS are found. Raises CorruptBatchError when the batch cannot be decoded at all.
    """
    header = parse_header(batch)
    records = iterate_records(batch, header, max_decompressed_bytes)
    return list(islice(_invalid_records(header, records, keys_required=keys_required), MAX_INVALID_RECORDS))


def _invalid_records(header: BatchHeader, records: Iterable[Record], *, keys_required: bool) -> Iterator[InvalidRecord]:
    for index, record in enumerate(records):
        expected_offset = header.base_offset + index
        if record.offset != expected_offset:
            yield InvalidRecord(
                index,
                f"record {index} has offset {record.offset}, expected {expected_offset}: offsets must increase by one",
            )
        elif keys_required and record.key is None:
            yield InvalidRecord(index, "Compacted topic cannot accept message without key.")
