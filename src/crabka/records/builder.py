"""From records to the bytes of a batch, format v2, as Kafka's own builder writes them.

The first record's timestamp is the base timestamp; offsets count up from the base offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crabka.records.compression import compress
from crabka.records.header import (
    CONTROL_FLAG,
    CREATE_TIME,
    HEADER_SIZE,
    HEADER_STRUCT,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_FLAG,
    MAGIC_V2,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    sealed,
)
from crabka.records.record import Headers
from crabka.records.varint import append_varint

_NULL = 0x01  # the varint of -1


class RecordLike(Protocol):
    """What the builder needs of a record: `crabka.records.Record` and producers' own tuples have it."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch."""
        ...

    @property
    def key(self) -> bytes | None:
        """The key, None for null."""
        ...

    @property
    def value(self) -> bytes | None:
        """The value, None for a tombstone."""
        ...

    @property
    def headers(self) -> Headers:
        """Names with their values, in order; names may repeat."""
        ...


def build_batch(
    records: Sequence[RecordLike],
    *,
    base_offset: int = 0,
    codec: int = 0,
    level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: int = CREATE_TIME,
    max_timestamp: int | None = None,
) -> bytes:
    """Return one batch with all records, offsets counted from `base_offset`.

    `max_timestamp` overrides the largest timestamp of the records, as log append time needs.
    """
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    attributes = (
        codec
        | (LOG_APPEND_TIME_FLAG if timestamp_type == LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if transactional else 0)
        | (CONTROL_FLAG if control else 0)
    )
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    batch = bytearray(HEADER_SIZE)
    HEADER_STRUCT.pack_into(
        batch,
        0,
        base_offset,
        0,
        leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        len(records) - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch += compress(codec, encode_records(records, base_timestamp), level)
    return sealed(batch)


def encode_records(records: Sequence[RecordLike], base_timestamp: int) -> bytes:
    """Return the uncompressed records section, offset deltas counted from 0."""
    out = bytearray()
    for index, record in enumerate(records):
        append_record(out, index, record, base_timestamp)
    return bytes(out)


def append_record(out: bytearray, offset_delta: int, record: RecordLike, base_timestamp: int) -> None:
    """Append one record with its length to a records section."""
    body = bytearray(1)
    append_varint(body, record.timestamp - base_timestamp)
    append_varint(body, offset_delta)
    _append_nullable(body, record.key)
    _append_nullable(body, record.value)
    headers = record.headers
    append_varint(body, len(headers))
    for name, value in headers:
        raw_name = name.encode()
        append_varint(body, len(raw_name))
        body += raw_name
        _append_nullable(body, value)
    append_varint(out, len(body))
    out += body


def _append_nullable(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(_NULL)
    else:
        append_varint(out, len(value))
        out += value
