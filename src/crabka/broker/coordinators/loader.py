"""Reads a partition of a coordinator's topic, batch by batch, in the background and in small steps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from crabka.records.header import iter_headers

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.log.partition_log import PartitionLog
    from crabka.ports import Threads
    from crabka.records.header import BatchHeader

    ReplayBatch = Callable[[memoryview, BatchHeader], int]

# Other work of the node has its turn after so many records.
RECORDS_PER_TURN: Final = 500


async def replay_log(source: PartitionLog, threads: Threads, replay: ReplayBatch, *, buffer_bytes: int) -> int:
    """Hand all batches to `replay`, which returns how many records it met; return the sum.

    As in Kafka these are also the batches above the high watermark: a new leader keeps what it holds, and will have it
    replicated.
    Raises OperationError if the log is cut under the reader, CorruptBatchError, OSError.
    """
    offset, count = source.log_start_offset, 0
    turn = 0
    while offset < source.log_end_offset:
        plan = source.read(offset, max_bytes=buffer_bytes)
        data = plan.read_nowait()
        if data is None:
            data = await threads.submit(plan.read)
        view = memoryview(data)
        start = offset
        for position, header in iter_headers(view):
            turn += replay(view[position : position + header.size_in_bytes], header)
            offset = header.next_offset
            if turn >= RECORDS_PER_TURN:
                count, turn = count + turn, 0
                await asyncio.sleep(0)
        if offset == start:
            # Nothing is left but offsets that compaction emptied.
            break
    return count + turn
