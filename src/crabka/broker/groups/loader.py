"""Reads a partition of `__consumer_offsets` into its shard, in the background and in small steps."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from crabka.broker.groups.records import decode_pair
from crabka.errors import WireError
from crabka.log.replay import end_marker
from crabka.records.header import iter_headers
from crabka.records.record import decode_records

if TYPE_CHECKING:
    from crabka.broker.groups.shard import GroupShard
    from crabka.log.partition_log import PartitionLog
    from crabka.ports import Threads
    from crabka.records.header import BatchHeader

log = logging.getLogger(__name__)

# Other work of the node has its turn after so many records.
RECORDS_PER_TURN: Final = 500


async def load_shard(
    shard: GroupShard, source: PartitionLog, threads: Threads, *, buffer_bytes: int, now_ms: int
) -> int:
    """Replay all records below the high watermark; return how many.

    Raises OperationError if the log is cut under the reader, CorruptBatchError, OSError.
    """
    offset, count = source.log_start_offset, 0
    turn = 0
    while offset < source.high_watermark:
        plan = source.read(offset, max_bytes=buffer_bytes, upper_offset=source.high_watermark)
        data = plan.read_nowait()
        if data is None:
            data = await threads.submit(plan.read)
        view = memoryview(data)
        start = offset
        for position, header in iter_headers(view):
            turn += _replay_batch(shard, view[position : position + header.size_in_bytes], header, now_ms)
            offset = header.next_offset
            if turn >= RECORDS_PER_TURN:
                count, turn = count + turn, 0
                await asyncio.sleep(0)
        if offset == start:
            # Nothing is left but offsets that compaction emptied.
            break
    return count + turn


def _replay_batch(shard: GroupShard, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
    if header.is_control:
        marker = end_marker(batch, header)
        if marker is not None:
            shard.offsets.complete(header.producer_id, commit=marker.committed)
        return 1
    producer_id = header.producer_id if header.is_transactional else -1
    records = decode_records(batch, header)
    for record in records:
        if record.key is None:
            continue
        try:
            stored = decode_pair(record.key, record.value)
        except WireError as error:
            # Kafka goes on as well: one group may be lost, not all of the partition.
            log.warning("The record at offset %d of __consumer_offsets cannot be read: %s", record.offset, error)
            continue
        if stored is None:
            log.warning("The record at offset %d of __consumer_offsets is of an unknown kind", record.offset)
        else:
            shard.replay(stored, now_ms, producer_id)
    return len(records)
