"""Producer snapshot of a log, `<offset>.snapshot`: version 1 of Kafka's ProducerSnapshot message.

    version int16 | crc uint32 (CRC-32C of what follows) | count int32 | entries:
    producerId int64 | epoch int16 | lastSequence int32 | lastOffset int64 | offsetDelta int32 | timestamp int64
    | coordinatorEpoch int32 | currentTxnFirstOffset int64

Only the last batch of a producer is stored. A torn file fails its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final, NamedTuple

from crc32c import crc32c

from crabka.errors import CorruptDataError
from crabka.ports import Buffer

VERSION: Final = 1
NO_TRANSACTION: Final = -1
_HEADER: Final = struct.Struct(">hIi")
_CHECKED_FROM: Final = struct.calcsize(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class ProducerRow(NamedTuple):
    """A producer as the file has it. `last_offset` is -1 without a batch, `txn_first_offset` without a transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def encode_producers(rows: Collection[ProducerRow]) -> bytes:
    """Return the file bytes of these producers, in their order."""
    body = b"".join([_COUNT.pack(len(rows)), *[_ENTRY.pack(*row) for row in rows]])
    return _HEADER.pack(VERSION, crc32c(body), len(rows)) + body[_COUNT.size :]


def decode_producers(data: Buffer, where: str = "") -> list[ProducerRow]:
    """Read a snapshot file. Raises CorruptDataError when size, version or checksum is wrong."""
    if len(data) < _HEADER.size:
        raise CorruptDataError(where, f"its {len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _HEADER.unpack_from(data)
    view = memoryview(data)
    if version != VERSION:
        raise CorruptDataError(where, f"its version is {version}, known is {VERSION}")
    if crc != crc32c(view[_CHECKED_FROM:]):
        raise CorruptDataError(where, "its checksum is wrong")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptDataError(where, f"its {len(data)} bytes do not hold {count} producers")
    return list(map(ProducerRow._make, _ENTRY.iter_unpack(view[_HEADER.size :])))


def open_transactions(rows: Collection[ProducerRow]) -> dict[int, int]:
    """Return the first offsets of the open transactions, by producer id."""
    return {row.producer_id: row.txn_first_offset for row in rows if row.txn_first_offset != NO_TRANSACTION}
