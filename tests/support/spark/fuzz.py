"""Logs with damage that checksums do not show, and what the decoder may make of them: right rows or CorruptBatch.

Run as a program, so that a read outside of memory ends another process than that of the tests:
`python -m tests.support.spark.fuzz SEED COUNT`. With `NUMBA_BOUNDSCHECK=1` such a read is an IndexError.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import struct
import sys
from collections import Counter
from collections.abc import Callable

import pyarrow as pa

from crabka.records import CorruptBatchError, Record, build_batch, decode_records, iter_headers, parse_header
from crabka.records.compression import compress, decompress
from crabka.records.filtering import filtered_batch, raw_records
from crabka.records.header import CODEC_MASK, HEADER_SIZE, BatchHeader, sealed
from crabka.spark.decode import AbortedTransactions, BatchDecoder, CorruptBatch, RowRange
from tests.support.spark.decoded_rows import ALL_COLUMNS, EVERYTHING, ORIGIN, Row

MAX_DECOMPRESSED_BYTES = 1 << 20
EDGES = (0, 1, 0x3F, 0x40, 0x7F, 0x80, 0xFE, 0xFF)
LIES = tuple(
    value.to_bytes(size, "big", signed=True)
    for size, bits in ((2, 15), (4, 31), (8, 63))
    for value in (0, -1, 1, 2**bits - 1, -(2**bits), 7)
)
VARINT_LIES = (b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 10, b"\xff" * 9 + b"\x01", b"\x80\x80\x80")


def fuzz(rng: random.Random, count: int) -> Counter[str]:
    """Decode so many damaged logs; returns how they ended. Raises AssertionError for rows that are wrong."""
    decoder = BatchDecoder(ALL_COLUMNS, max_rows=5, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
    ends: Counter[str] = Counter()
    for _ in range(count):
        data = damaged_log(rng)
        try:
            ends["rows"] += _check(decoder, data, EVERYTHING)
        except CorruptBatch as error:
            ends[re.sub(r"(?<!\w)-?\d+", "N", error.message.split(":")[0])] += 1
        # A range may leave out what is broken.
        with contextlib.suppress(CorruptBatch):
            ends["rows of a range"] += _check(decoder, data, _some_range(rng))
        _decode_partly(rng, data)
    return ends


def _some_range(rng: random.Random) -> RowRange:
    start = rng.randrange(40)
    return RowRange(start, start + rng.choice((0, 1, rng.randrange(20), 1 << 61)))


def _check(decoder: BatchDecoder, data: bytes, rows: RowRange) -> int:
    found = []
    for batch in decoder.decode(data, ORIGIN, rows):
        batch.validate(full=True)
        # Python's own datetimes end with the year 9999.
        micros = batch.column("timestamp").cast(pa.int64())
        found += batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", micros).to_pylist()
    try:
        expected = _expected(data, rows)
    except CorruptBatchError as error:
        # The checksum of the batch covers those of lz4, which are not looked at.
        if "hecksum" in error.message and "lz4" in error.message:
            return 0
        raise
    assert found == expected
    return 1


def _expected(data: bytes, rows: RowRange) -> list[Row]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": ORIGIN.topic,
            "partition": ORIGIN.partition,
            "offset": record.offset,
            "timestamp": record.timestamp * 1_000,
            "timestampType": header.timestamp_type,
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
        }
        for position, header in iter_headers(data)
        if not header.is_control and header.records_count and _overlaps(header, rows)
        for record in decode_records(data[position : position + header.size_in_bytes])
        if rows.start_offset <= record.offset < rows.end_offset
    ]


def _overlaps(header: BatchHeader, rows: RowRange) -> bool:
    """Whether the batch is in the range by what its header says: others are not looked at."""
    return header.base_offset < rows.end_offset and header.last_offset >= rows.start_offset


def _decode_partly(rng: random.Random, data: bytes) -> None:
    """Other columns, ranges and limits, with reports: nothing but rows and reports may come of it."""
    reports: list[CorruptBatch] = []
    decoder = BatchDecoder(
        rng.sample(ALL_COLUMNS, rng.randrange(1, len(ALL_COLUMNS) + 1)),
        max_rows=rng.choice((1, 7, 65_536)),
        max_bytes=rng.choice((1, 300, 1 << 20)),
        max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
        on_corrupt=reports.append,
    )
    start = rng.choice((0, 0, rng.randrange(60)))
    aborted = AbortedTransactions([(7, rng.randrange(30), rng.choice((None, rng.randrange(60))))])
    limits = RowRange(start, rng.choice((1 << 62, start + rng.randrange(40))))
    try:
        for batch in decoder.decode(data, ORIGIN, limits, rng.choice((None, aborted))):
            batch.validate(full=True)
            if batch.num_rows > 100_000:
                break  # a header may claim two thousand million offsets
    except CorruptBatch as error:
        if error.skippable:
            raise


def damaged_log(rng: random.Random) -> bytes:
    """A few batches, some of them damaged, all with checksums that fit."""
    data = b""
    offset = 0
    for _ in range(rng.randrange(1, 5)):
        batch = _some_batch(rng, offset)
        offset += parse_header(batch).last_offset_delta + 1
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            batch = rng.choice(DAMAGES)(rng, batch)
        data += batch
    return data[: rng.randrange(len(data))] if rng.random() < 0.05 else data


def _some_batch(rng: random.Random, offset: int) -> bytes:
    records = [_some_record(rng) for _ in range(rng.randrange(1, 12))]
    transactional = rng.random() < 0.2
    return build_batch(
        records,
        base_offset=offset,
        codec=rng.randrange(5),
        producer_id=7 if transactional else -1,
        transactional=transactional,
        control=rng.random() < 0.05,
        timestamp_type=rng.choice((0, 0, 1)),
    )


def _some_record(rng: random.Random) -> Record:
    key, value = (rng.choice((None, b"", rng.randbytes(rng.randrange(90)))) for _ in range(2))
    headers = [(rng.choice("abc"), rng.choice((None, b"x" * rng.randrange(80)))) for _ in range(rng.choice((0, 0, 2)))]
    return Record(0, rng.choice((1_700_000_000_000, 0, rng.randrange(1 << 41))), key, value, tuple(headers))


def _damage_records(rng: random.Random, batch: bytes) -> bytes:
    """Change the records below the compression."""
    codec = parse_header(batch).codec
    try:
        payload = bytearray(decompress(codec, batch[HEADER_SIZE:], MAX_DECOMPRESSED_BYTES))
        _change(rng, payload)
        return sealed(bytearray(batch[:HEADER_SIZE]) + compress(codec, payload))
    except CorruptBatchError:
        return batch


def _change(rng: random.Random, payload: bytearray) -> None:
    if not payload:
        payload += rng.randbytes(3)
    position = rng.randrange(len(payload))
    match rng.randrange(6):
        case 0:
            payload[position] ^= 1 << rng.randrange(8)
        case 1:
            payload[position] = rng.choice(EDGES)
        case 2:
            del payload[position:]
        case 3:
            payload += rng.randbytes(rng.randrange(1, 20))
        case 4:
            lie = rng.choice(VARINT_LIES)
            payload[position : position + rng.choice((1, len(lie)))] = lie
        case _:
            payload[:1] = rng.choice(VARINT_LIES)


def _damage_header(rng: random.Random, batch: bytes) -> bytes:
    """Lie about offsets, timestamps, counts, attributes; the length stays true."""
    changed = bytearray(batch)
    position, size = rng.choice(((0, 8), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (57, 4), (57, 4), (16, 1)))
    value = rng.choice([lie for lie in LIES if len(lie) == size] or [b"\x01"])
    changed[position : position + size] = value
    return sealed(changed)


def _shift_offsets(rng: random.Random, batch: bytes) -> bytes:
    """Lie about the first or the last offset, by little."""
    changed = bytearray(batch)
    form, position = rng.choice(((">q", 0), (">i", 23)))
    (value,) = struct.unpack_from(form, changed, position)
    if abs(value) < 1 << 30:  # not where another lie has made it as large as can be
        struct.pack_into(form, changed, position, value + rng.choice((-2, -1, 1, 2, 9)))
    return sealed(changed)


def _repeat_offset(rng: random.Random, batch: bytes) -> bytes:
    """Give two records of one batch their offsets in another order, or the same one."""
    header = parse_header(batch)
    try:
        records = raw_records(batch, header)
        if len(records) > 1:
            first, second = sorted(rng.sample(range(len(records)), 2))
            records[first], records[second] = records[second], rng.choice((records[first], records[second]))
            return filtered_batch(header, records, None)
    except (CorruptBatchError, struct.error):
        pass  # other damage has left no records, or a timestamp that no header can hold
    return batch


def _damage_anything(rng: random.Random, batch: bytes) -> bytes:
    """Change bytes after the length, compressed data included."""
    changed = bytearray(batch)
    for _ in range(rng.choice((1, 1, 3))):
        changed[rng.randrange(12, len(changed))] = rng.choice((rng.randrange(256), rng.choice(EDGES)))
    return sealed(changed)


def _damage_length(rng: random.Random, batch: bytes) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 8, rng.choice((0, -1, 48, 49, len(batch), 2**31 - 1, -(2**31), len(batch) - 13)))
    return bytes(changed)


def _unknown_codec(rng: random.Random, batch: bytes) -> bytes:
    changed = bytearray(batch)
    changed[22] = changed[22] & ~CODEC_MASK | rng.randrange(8)
    return sealed(changed)


DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_damage_records, _damage_records, _damage_records, _damage_header, _damage_header),
    *(_shift_offsets, _repeat_offset, _damage_anything, _damage_length, _unknown_codec),
)


if __name__ == "__main__":
    print(json.dumps(fuzz(random.Random(int(sys.argv[1])), int(sys.argv[2]))))
