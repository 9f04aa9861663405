"""Offsets by time in the remote tier (ListOffsets): time indexes first, then the headers of batches, then one batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.tiering.deadline import RemoteWaitOverError
from crabka.broker.tiering.segment_read import locate
from crabka.log.decompression import search_limit
from crabka.log.timestamps import TimestampOffset
from crabka.records.record import iterate_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.tiering.deadline import Deadline
    from crabka.broker.tiering.read_tools import ReadTools
    from crabka.broker.tiering.remote_log import RemoteLog
    from crabka.broker.tiering.segment_source import SegmentSource
    from crabka.log.decompression import DecompressionBudget
    from crabka.log.partition_log import PartitionLog
    from crabka.ports import Buffer
    from crabka.records.header import BatchHeader
    from crabka.remote.segments import RemoteLogSegmentMetadata

_UNKNOWN: Final = -1


class _Memory(NamedTuple):
    """What a batch may hold while it is looked into, and from where."""

    budget: DecompressionBudget
    limit: int


async def find_by_timestamp(
    tools: ReadTools, remote: RemoteLog, local: PartitionLog, timestamp: int, deadline: Deadline
) -> TimestampOffset | None:
    """Return the first record below the local log whose timestamp is not below the given one.

    Segments are looked at in the order of offsets; those of another history are passed over, record by record. Raises
    RemoteStorageError, RemoteWaitOverError, CorruptBatchError of a batch that holds more than `search_limit`.
    """
    start_offset = local.log_start_offset
    memory = _Memory(local.decompression, search_limit(local.config))
    for segment in await deadline.wait(tools.pool.submit(_candidates, remote, start_offset, timestamp)):
        if segment.start_offset >= local.local_log_start_offset:
            break
        found = await _find_in_segment(tools, segment, (timestamp, start_offset), deadline, memory)
        if found is not None and remote.epoch_of(found.offset) == found.leader_epoch:
            return found
    return None


def _candidates(remote: RemoteLog, start_offset: int, timestamp: int) -> list[RemoteLogSegmentMetadata]:
    """Runs in a thread: there may be many segments."""
    return [
        segment
        for segment in remote.finished_segments(start_offset)
        if segment.max_timestamp_ms >= timestamp or segment.max_timestamp_ms == _UNKNOWN
    ]


async def _find_in_segment(
    tools: ReadTools, segment: RemoteLogSegmentMetadata, wanted: tuple[int, int], deadline: Deadline, memory: _Memory
) -> TimestampOffset | None:
    timestamp, start_offset = wanted
    times = await tools.indexes.times(segment, deadline)
    offsets = await tools.indexes.offsets(segment, deadline)
    source = await tools.source(segment, deadline)
    # All batches up to this entry have smaller timestamps, unless the entry has exactly the wanted one.
    offset = max(times.floor(timestamp - 1).offset, start_offset)
    while (found := await locate(source, offsets, offset, deadline)) is not None:
        position, header = found
        if header.max_timestamp >= timestamp:
            batch = await _load_batch(source, position, header, deadline)
            match = await _look_into(tools, memory, deadline, partial(_find_in_batch, batch, header, wanted))
            if match is not None:
                return match
        offset = header.next_offset
    return None


async def _load_batch(source: SegmentSource, position: int, header: BatchHeader, deadline: Deadline) -> Buffer:
    size = header.size_in_bytes
    if await source.load(size, position, deadline) < min(size, source.size - position):
        raise RemoteWaitOverError
    batch = source.peek(size, position)
    if batch is None:
        raise RemoteWaitOverError
    return batch


async def _look_into(
    tools: ReadTools, memory: _Memory, deadline: Deadline, find: Callable[[int], TimestampOffset | None]
) -> TimestampOffset | None:
    looking = memory.budget.submit(tools.pool, memory.limit, find, memory.limit)
    try:
        return await deadline.wait(looking)
    except RemoteWaitOverError:
        looking.cancel()  # as far as it has no thread yet
        raise


def _find_in_batch(batch: Buffer, header: BatchHeader, wanted: tuple[int, int], limit: int) -> TimestampOffset | None:
    """Runs in a thread: it may have to decompress much."""
    timestamp, start_offset = wanted
    for record in iterate_records(batch, header, limit):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
