"""Records inside a batch: from bytes to tuples.

Decodes data and control batches of format v2, compressed or not. The broker's produce and fetch paths never come
here: only readers of their own topics, validation, compaction and clients do.

    length varint | attributes int8 | timestampDelta varlong | offsetDelta varint | keyLength varint | key
    | valueLength varint | value | headersCount varint | (keyLength varint | key | valueLength varint | value)*
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from crabka.ports import Buffer
from crabka.protocol.error_codes import ErrorCode
from crabka.records.compression import decompress
from crabka.records.errors import CorruptBatchError
from crabka.records.header import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_V2,
    BatchHeader,
    parse_header,
)
from crabka.records.varint import decode_varint, decode_varlong

DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
MIN_RECORD_BYTES = 7
"""Length, attributes, two deltas, two null lengths and a header count: no record is smaller."""

Headers = tuple[tuple[str, bytes | None], ...]

_new_tuple = tuple.__new__


class Record(NamedTuple):
    """One record; `offset` and `timestamp` are absolute."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode_records(
    batch: Buffer,
    header: BatchHeader | None = None,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Return all records of the batch at the start of `batch`; the checksum is the caller's matter.

    With log append time every record has the batch's maximum timestamp, as Kafka's readers see it.
    Raises CorruptBatchError when lengths, counts or the compressed data are wrong.
    """
    return list(iterate_records(batch, header, max_decompressed_bytes))


def iterate_records(
    batch: Buffer,
    header: BatchHeader | None = None,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """Yield the records one by one, as `decode_records` returns them: a million small ones are never held at once."""
    if len(batch) < HEADER_SIZE:
        raise CorruptBatchError(f"a record batch has at least {HEADER_SIZE} bytes, got {len(batch)}")
    head = parse_header(batch) if header is None else header
    payload = records_payload(batch, head, max_decompressed_bytes)
    if not 0 <= head.records_count <= len(payload) // MIN_RECORD_BYTES:
        raise _invalid(f"{head.records_count} records cannot fit in {len(payload)} bytes")
    try:
        yield from _iterate_payload(payload, head)
    except IndexError as error:
        raise _invalid("a record is cut short") from error


def records_payload(batch: Buffer, header: BatchHeader, max_bytes: int) -> bytes:
    """Return the uncompressed records section of the batch at the start of `batch`.

    Raises CorruptBatchError when the batch is cut short, not of format v2, or cannot be decompressed.
    """
    size = header.batch_length + LOG_OVERHEAD
    if header.magic != MAGIC_V2:
        raise CorruptBatchError(f"record batch has magic {header.magic}, only {MAGIC_V2} is supported")
    if not HEADER_SIZE <= size <= len(batch):
        raise CorruptBatchError(f"record batch claims {size} bytes, {len(batch)} are there")
    return decompress(header.codec, memoryview(batch)[HEADER_SIZE:size], max_bytes)


def _iterate_payload(payload: bytes, header: BatchHeader) -> Iterator[Record]:
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    position = 0
    for _ in range(header.records_count):
        length, position = decode_varint(payload, position)
        end = position + length
        if length < 0 or end > len(payload):
            raise _invalid(f"a record of {length} bytes does not fit in its batch")
        timestamp_delta, position = decode_varlong(payload, position + 1)
        offset_delta, position = decode_varint(payload, position)
        key, position = _nullable_bytes(payload, position, end)
        value, position = _nullable_bytes(payload, position, end)
        headers, position = _headers(payload, position, end)
        if position != end:
            raise _invalid(f"a record of {length} bytes has {position - end + length} bytes of content")
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        yield _new_tuple(Record, (base_offset + offset_delta, timestamp, key, value, headers))
    if position != len(payload):
        raise _invalid(f"{len(payload) - position} bytes follow the last record of a batch")


def _nullable_bytes(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(payload, position)
    if length < 0:
        return None, position
    following = position + length
    if following > end:
        raise _invalid(f"a field of {length} bytes does not fit in its record")
    return payload[position:following], following


def _headers(payload: bytes, position: int, end: int) -> tuple[Headers, int]:
    if payload[position] == 0:
        return (), position + 1
    count, position = decode_varint(payload, position)
    if not 0 <= count <= end - position:
        raise _invalid(f"a record cannot have {count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _nullable_bytes(payload, position, end)
        if key is None:
            raise _invalid("a record header has no key")
        value, position = _nullable_bytes(payload, position, end)
        headers.append((_utf8(key), value))
    return tuple(headers), position


def _utf8(raw: bytes) -> str:
    # Java decodes header keys leniently; a key that is not UTF-8 must not make a partition unreadable.
    return raw.decode("utf-8", errors="replace")


def _invalid(message: str) -> CorruptBatchError:
    return CorruptBatchError(message, ErrorCode.invalid_record)
