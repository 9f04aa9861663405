"""Batches with some of their records taken out, as compaction writes them (KIP-534 for the delete horizon).

A filtered batch keeps base and last offset, sequences, producer and epoch; only count, timestamps and payload change.
Records are moved as they are stored: everything from the key on is copied without a look, so nothing gets lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crabka.ports import Buffer
from crabka.records.compression import compress
from crabka.records.errors import CorruptBatchError
from crabka.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    HEADER_STRUCT,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    sealed,
)
from crabka.records.record import DEFAULT_MAX_DECOMPRESSED_BYTES, records_payload
from crabka.records.varint import append_varint, decode_varint, decode_varlong

_HALF = 1 << 63


class RawRecord(NamedTuple):
    """One record as much as compaction looks at it; `tail` is the stored form from the key length on."""

    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool
    attributes: int
    tail: bytes


def raw_records(batch: Buffer, header: BatchHeader, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> list[RawRecord]:
    """Return the records of a batch, which may hold so many bytes.

    Raises CorruptBatchError when they hold more, or contradict their lengths or count.
    """
    return raw_records_in(records_payload(batch, header, max_bytes), header)


def raw_records_in(payload: bytes, header: BatchHeader) -> list[RawRecord]:
    """Return the records of a batch whose records section is decompressed already. Raises as `raw_records`."""
    records: list[RawRecord] = []
    position = 0
    try:
        for _ in range(header.records_count):
            record, position = _raw_record(payload, position, header)
            records.append(record)
    except IndexError as error:
        raise CorruptBatchError("a record is cut short") from error
    if position != len(payload):
        raise CorruptBatchError(f"{len(payload) - position} bytes follow the last record of a batch")
    return records


def _raw_record(payload: bytes, position: int, header: BatchHeader) -> tuple[RawRecord, int]:
    length, position = decode_varint(payload, position)
    end = position + length
    if length < 0 or end > len(payload):
        raise CorruptBatchError(f"a record of {length} bytes does not fit in its batch")
    attributes = payload[position]
    timestamp_delta, position = decode_varlong(payload, position + 1)
    offset_delta, tail_start = decode_varint(payload, position)
    key_length, position = decode_varint(payload, tail_start)
    key = None if key_length < 0 else payload[position : position + key_length]
    value_length, position = decode_varint(payload, position + max(key_length, 0))
    if position + max(value_length, 0) > end:
        raise CorruptBatchError(f"a value of {value_length} bytes does not fit in its record")
    append_time = header.timestamp_type == LOG_APPEND_TIME
    timestamp = header.max_timestamp if append_time else _as_long(header.base_timestamp + timestamp_delta)
    tail = payload[tail_start:end]
    return RawRecord(header.base_offset + offset_delta, timestamp, key, value_length >= 0, attributes, tail), end


def filtered_batch(header: BatchHeader, records: Sequence[RawRecord], horizon_ms: int | None) -> bytes:
    """Return the batch with only these records of it, at least one, and with a delete horizon unless None."""
    base_timestamp = records[0].timestamp if horizon_ms is None else horizon_ms
    payload = bytearray()
    for record in records:
        body = bytearray((record.attributes,))
        append_varint(body, _as_long(record.timestamp - base_timestamp))
        append_varint(body, record.offset - header.base_offset)
        append_varint(payload, len(body) + len(record.tail))
        payload += body
        payload += record.tail
    attributes = header.attributes & ~DELETE_HORIZON_FLAG | (0 if horizon_ms is None else DELETE_HORIZON_FLAG)
    max_timestamp = max(record.timestamp for record in records)
    head = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=len(records),
    )
    return _packed(head, compress(header.codec, payload))


def emptied_batch(header: BatchHeader) -> bytes:
    """Return the batch without records: it only has the offsets, sequences and epoch of its producer."""
    attributes = header.attributes & ~(DELETE_HORIZON_FLAG | CODEC_MASK)
    return _packed(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")


def _as_long(number: int) -> int:
    """Return a number as Java's 64 bits hold it: producers may send times whose sum is more."""
    return (number + _HALF) % (2 * _HALF) - _HALF


def _packed(header: BatchHeader, payload: bytes) -> bytes:
    batch = bytearray(HEADER_SIZE)
    HEADER_STRUCT.pack_into(batch, 0, *header)
    batch += payload
    return sealed(batch)
