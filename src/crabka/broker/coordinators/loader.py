"""Reads a partition of a coordinator's topic, batch by batch, in the background and in small steps."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from crabka.errors import OperationError, WireError
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import crc_valid, iter_headers
from crabka.records.record import decode_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import Threads
    from crabka.records.header import BatchHeader

    ReplayBatch = Callable[[memoryview, BatchHeader], int]

T = TypeVar("T")
logger = logging.getLogger(__name__)

# A repair takes a moment, and no request is served before.
DAMAGED_PAUSE_MS: Final = 500
# After so many records other work of the node gets a turn.
RECORDS_PER_TURN: Final = 500


async def replay_log(source: PartitionLog, threads: Threads, replay: ReplayBatch, *, buffer_bytes: int) -> int:
    """Pass all batches to `replay`, which returns the number of records; return the sum.

    As in Kafka these are also the batches above the high watermark: a new leader keeps its log and replicates it.
    A damaged batch is reported and its repair awaited: without it the state would be wrong.
    Raises OperationError if the log is cut under the reader, CorruptBatchError, OSError.
    """
    offset, count = source.log_start_offset, 0
    turn = 0
    while offset < source.log_end_offset:
        view = await _read_whole(source, threads, offset, buffer_bytes)
        if view is None:
            await asyncio.sleep(DAMAGED_PAUSE_MS / 1000)
            continue
        start = offset
        for position, header in iter_headers(view):
            if not crc_valid(view, position, header):
                # The next read begins with it.
                break
            turn += replay(view[position : position + header.size_in_bytes], header)
            offset = header.next_offset
            if turn >= RECORDS_PER_TURN:
                count, turn = count + turn, 0
                await asyncio.sleep(0)
        if offset == start:
            # Only offsets that compaction removed are left.
            break
    return count + turn


def replay_records(
    batch: memoryview,
    header: BatchHeader,
    topic: str,
    *,
    decode: Callable[[bytes, bytes | None], T | None],
    apply: Callable[[T], None],
) -> int:
    """Apply the records of a batch; return their number.

    As in Kafka, a record that cannot be read is skipped: one group or transaction may be lost, not the whole partition.
    """
    records = decode_records(batch, header)
    for record in records:
        if record.key is None:
            continue
        try:
            stored = decode(record.key, record.value)
        except WireError as error:
            logger.warning("The record at offset %d of %s cannot be read: %s", record.offset, topic, error)
            continue
        if stored is None:
            logger.warning("The record at offset %d of %s is of an unknown kind", record.offset, topic)
        else:
            apply(stored)
    return len(records)


async def _read_whole(source: PartitionLog, threads: Threads, offset: int, buffer_bytes: int) -> memoryview | None:
    """Return bytes that begin with a complete batch, empty at the end; None if the batch is damaged."""
    try:
        plan = source.read(offset, max_bytes=buffer_bytes)
        data = plan.read_nowait()
        if data is None:
            data = await threads.submit(plan.read)
    except OperationError as error:
        if error.error_code is not ErrorCode.corrupt_message:
            raise
        return None
    view = memoryview(data)
    first = next(iter_headers(view), None)
    if plan.is_lost or (len(view) > 0 and (first is None or not crc_valid(view, *first))):
        source.healing.report_damage_at(offset, f"the coordinator finds no whole batch at offset {offset}")
        return None
    return view
