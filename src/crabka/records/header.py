"""The 61-byte header of a record batch, format v2 (Kafka's DefaultRecordBatch).

Owns the layout of the header and the checksum over the batch; never looks into the records. `parse_header` is on
the path of every produced batch, so it is one `unpack_from` into a named tuple, with no checks: the caller makes
sure that 61 bytes are there.

    baseOffset int64 | batchLength int32 | partitionLeaderEpoch int32 | magic int8 | crc uint32 | attributes int16
    | lastOffsetDelta int32 | baseTimestamp int64 | maxTimestamp int64 | producerId int64 | producerEpoch int16
    | baseSequence int32 | recordsCount int32 | records

The checksum (CRC-32C) covers everything from the attributes on, so that offset and leader epoch can be patched.
Attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 the base timestamp is a delete horizon.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from crabka.ports import Buffer

MAGIC_V2: Final = 2
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes of base offset and batch length, which the batch length does not count."""
PATCHED_PREFIX_SIZE: Final = 16
LENGTH_POSITION: Final = 8
EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1
MAX_SEQUENCE: Final = (1 << 31) - 1

HEADER_STRUCT: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX_STRUCT: Final = struct.Struct(">qii")
_LENGTH_STRUCT: Final = struct.Struct(">i")
_unpack_header = HEADER_STRUCT.unpack_from

# Parts of a header, for readers that need no more: base offset and batch length;
unpack_offset_and_length = struct.Struct(">qi").unpack_from
# base offset, batch length and last offset delta;
EXTENT_STRUCT: Final = struct.Struct(">qi11xi")
# all but the timestamps, the producer and the sequence.
UNTIMED_HEADER_STRUCT: Final = struct.Struct(">qiiBIhi30xi")
_new_tuple = tuple.__new__


class BatchHeader(NamedTuple):
    """The header fields in wire order; `crc` is unsigned, everything else signed as on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_in_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was written with; compaction keeps it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset of the first record after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """True if the records belong to a transaction."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """True if the batch holds control records, which consumers never see."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        """True if the base timestamp is the time after which tombstones may go (KIP-534)."""
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        """True if an idempotent producer wrote the batch."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 without sequences; wraps from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_sequence(self.base_sequence, self.last_offset_delta)


def add_sequence(sequence: int, increment: int) -> int:
    """Return `sequence + increment`, wrapped from 2^31-1 to 0 as producers count."""
    return (sequence + increment) & MAX_SEQUENCE


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`; nothing is checked. Raises struct.error below 61 bytes."""
    return _new_tuple(BatchHeader, _unpack_header(buffer, position))


def iter_headers(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of the batches that lie completely in `buffer[position:end]`.

    Stops at the first batch that is cut off or whose length cannot hold a header; the caller compares the end of
    the last batch with `end` to learn whether bytes are left over.
    """
    limit = len(buffer) if end is None else min(end, len(buffer))
    while position + HEADER_SIZE <= limit:
        header = parse_header(buffer, position)
        following = position + header.batch_length + LOG_OVERHEAD
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or following > limit:
            return
        yield position, header
        position = following


def crc_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return whether the checksum in the header fits the batch at `position`."""
    return header.crc == batch_crc(buffer, position, header.batch_length + LOG_OVERHEAD)


def batch_crc(buffer: Buffer, position: int, size_in_bytes: int) -> int:
    """Return the CRC-32C over attributes and everything after them."""
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size_in_bytes])


def patched_prefix(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """Return the first 16 bytes of a batch, those outside the checksum, to write before `batch[16:]`."""
    return _PREFIX_STRUCT.pack(base_offset, batch_length, leader_epoch)


def sealed(batch: bytearray) -> bytes:
    """Return the batch with its length and checksum fields made true."""
    _LENGTH_STRUCT.pack_into(batch, LENGTH_POSITION, len(batch) - LOG_OVERHEAD)
    struct.pack_into(">I", batch, CRC_POSITION, batch_crc(batch, 0, len(batch)))
    return bytes(batch)
