"""Offsets by time in the remote tier (ListOffsets): time indexes first, then the headers of batches, then one batch.

All batches on the way are verified, and so is the entry of the time index where the search begins.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.tiering.read.deadline import RemoteWaitOverError
from crabka.broker.tiering.read.healing.verified_read import read_verified
from crabka.broker.tiering.read.segment_read import WantedBytes
from crabka.formats.time_index import TimeIndexEntry
from crabka.log.partition.decompression import search_limit
from crabka.log.partition.timestamps import TimestampOffset
from crabka.ports import FileRange
from crabka.records.header import iter_headers, parse_header
from crabka.records.record import iterate_records
from crabka.remote.segments import IndexType

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.remote_log import RemoteLog
    from crabka.broker.tiering.read.segment_read import SegmentPart
    from crabka.broker.tiering.read.tools import ReadTools
    from crabka.log.partition.decompression import DecompressionBudget
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import Payload
    from crabka.remote.segments import RemoteLogSegmentMetadata

_UNKNOWN: Final = -1
# What is read at once: more than lies between two entries of an index, if batches are small.
_SEARCH_BYTES: Final = 64 * 1024


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
    # All batches up to this entry have smaller timestamps, unless the entry has exactly the wanted one.
    entry = await _true_entry(tools, segment, timestamp - 1, deadline, memory)
    offset = max(entry.offset, start_offset)
    while offset <= segment.end_offset:
        part = await _read(tools, segment, offset, deadline, memory)
        if part is None:
            return None
        match = await _look_into(tools, memory, deadline, partial(_find_in_part, part.payloads, wanted))
        if match is not None:
            return match
        offset = part.next_offset
    return None


async def _true_entry(
    tools: ReadTools, segment: RemoteLogSegmentMetadata, timestamp: int, deadline: Deadline, memory: _Memory
) -> TimeIndexEntry:
    """Return the entry of the time index for a timestamp; one for the begin of the segment if it is not true."""
    entry = (await tools.indexes.times(segment, deadline)).floor(timestamp)
    if await _is_true(tools, segment, entry, deadline, memory):
        return entry
    tools.indexes.refetch(segment, IndexType.TIMESTAMP)
    entry = (await tools.indexes.times(segment, deadline)).floor(timestamp)
    if await _is_true(tools, segment, entry, deadline, memory):
        return entry
    reason = f"the batch of offset {entry.offset} has another timestamp than {entry.timestamp}"
    tools.surveys.report_index(segment, IndexType.TIMESTAMP, f"{reason}; the whole segment is searched")
    return TimeIndexEntry(_UNKNOWN, segment.start_offset)


async def _is_true(
    tools: ReadTools, segment: RemoteLogSegmentMetadata, entry: TimeIndexEntry, deadline: Deadline, memory: _Memory
) -> bool:
    """Return whether the batch that an entry of a time index names has the timestamp of the entry."""
    if entry.timestamp == _UNKNOWN:
        return True
    part = await _read(tools, segment, entry.offset, deadline, memory)
    if part is None:
        return False
    return await deadline.wait(tools.pool.submit(_first_timestamp, part.payloads)) == entry.timestamp


async def _read(
    tools: ReadTools, segment: RemoteLogSegmentMetadata, offset: int, deadline: Deadline, memory: _Memory
) -> SegmentPart | None:
    wanted = WantedBytes(offset, _SEARCH_BYTES, segment.end_offset + 1, min_one_batch=True)
    return await read_verified(tools, segment, wanted, deadline, max_decompressed_bytes=memory.limit)


async def _look_into(
    tools: ReadTools, memory: _Memory, deadline: Deadline, find: Callable[[int], TimestampOffset | None]
) -> TimestampOffset | None:
    looking = memory.budget.submit(tools.pool, memory.limit, find, memory.limit)
    try:
        return await deadline.wait(looking)
    except RemoteWaitOverError:
        looking.cancel()  # as far as it has no thread yet
        raise


def _find_in_part(payloads: list[Payload], wanted: tuple[int, int], limit: int) -> TimestampOffset | None:
    """Runs in a thread: it may have to decompress much."""
    timestamp, start_offset = wanted
    data = _joined(payloads)
    for position, header in iter_headers(data):
        if header.max_timestamp < timestamp:
            continue
        for record in iterate_records(data[position:], header, limit):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def _first_timestamp(payloads: list[Payload]) -> int:
    """Return the largest timestamp of the first batch. Runs in a thread."""
    return parse_header(_joined(payloads)).max_timestamp


def _joined(payloads: list[Payload]) -> memoryview:
    return memoryview(b"".join(part.read() if isinstance(part, FileRange) else part for part in payloads))
