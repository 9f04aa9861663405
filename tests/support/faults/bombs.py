"""Small batches that hold much: bombs of every codec."""

from __future__ import annotations

import functools
import gzip
import struct

import cramjam

from crabka.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from crabka.records.header import HEADER_SIZE, HEADER_STRUCT, LOG_OVERHEAD, MAGIC_V2, BatchHeader, sealed

MEBIBYTE = 1 << 20
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


def bomb(codec: int, size: int, *, records_count: int = 1) -> bytes:
    """Return a batch with a valid checksum whose records section holds `size` zero bytes."""
    payload = _compressed_zeros(codec, size)
    batch = bytearray(HEADER_SIZE) + payload
    header = BatchHeader(
        base_offset=0,
        batch_length=len(batch) - LOG_OVERHEAD,
        partition_leader_epoch=-1,
        magic=MAGIC_V2,
        crc=0,
        attributes=codec,
        last_offset_delta=records_count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=records_count,
    )
    HEADER_STRUCT.pack_into(batch, 0, *header)
    return bytes(sealed(batch))


@functools.cache
def _compressed_zeros(codec: int, size: int) -> bytes:
    zeros = bytes(size)
    if codec == NONE:
        return zeros
    if codec == GZIP:
        return gzip.compress(zeros, 9)
    if codec == SNAPPY:
        # Raw and without xerial's blocks: the length in front of it is what a reader would set aside.
        return bytes(cramjam.snappy.compress_raw(zeros))
    if codec == LZ4:
        return bytes(cramjam.lz4.compress(zeros))
    return bytes(cramjam.zstd.compress(zeros, 3))


def produce_frame(topic: str, batch: bytes, *, partition: int = 0, correlation_id: int = 1) -> bytes:
    """Return a Produce request v7 with acks=1, with its length in front."""
    name = topic.encode()
    header = struct.pack(">hhih", 0, 7, correlation_id, -1)
    body = struct.pack(">hhi", -1, 1, 30_000) + struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return struct.pack(">i", len(header + body)) + header + body


def produced_error(topic: str, response: bytes) -> int:
    """Return the error code in the response to such a request, given without its length."""
    (code,) = struct.unpack_from(">h", response, 4 + 4 + 2 + len(topic.encode()) + 4 + 4)
    return int(code)
