"""Offsets by time: ListOffsets for a timestamp, and the record with the largest timestamp (KIP-734).

Works on headers and time indexes first and decodes only the one batch that holds the answer. Control records
count, as in Kafka. Reads files and may hold a batch of `max_bytes`: callers run it in a thread, with room for that in
the log's DecompressionBudget. A batch that holds more raises CorruptBatchError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.records.record import iterate_records

if TYPE_CHECKING:
    from crabka.log.segment.segment import Segment
    from crabka.log.segment.segments import Segments


class TimestampOffset(NamedTuple):
    """A record found by time, with the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_by_timestamp(segments: Segments, timestamp: int, start_offset: int, max_bytes: int) -> TimestampOffset | None:
    """Return the first record at or after `start_offset` whose timestamp is not below the given one."""
    for segment in segments.from_offset(start_offset):
        # An empty segment, or one without timestamps, cannot hold it; the search continues after it.
        if segment.size and segment.read_max_timestamp().timestamp >= timestamp:
            found = _find_in_segment(segment, timestamp, start_offset, max_bytes)
            if found is not None:
                return found
    return None


def _find_in_segment(segment: Segment, timestamp: int, start_offset: int, max_bytes: int) -> TimestampOffset | None:
    indexes = segment.indexes()
    # All batches up to this entry have smaller timestamps, unless the entry has exactly the wanted one.
    nearest = indexes.times.floor(timestamp - 1)
    position = indexes.offsets.floor_position(max(nearest.offset, start_offset))
    for batch_position, header in segment.headers(position):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        for record in iterate_records(segment.read_batch(batch_position, header), header, max_bytes):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def find_max_timestamp(segments: Segments, max_bytes: int) -> TimestampOffset | None:
    """Return the first record with the largest timestamp of the log, None if no batch has one."""
    best = max(list(segments), key=lambda segment: segment.read_max_timestamp().timestamp)
    largest = best.read_max_timestamp()
    if largest.timestamp < 0:
        return None
    for position, header in best.headers(best.indexes().offsets.floor_position(largest.offset)):
        if header.max_timestamp == largest.timestamp:
            for record in iterate_records(best.read_batch(position, header), header, max_bytes):
                if record.timestamp == largest.timestamp:
                    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
