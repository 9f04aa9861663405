"""The first record of a time or later, found in the tier alone, as a broker finds it with ListOffsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from crabka.records.header import BatchHeader, iter_headers
from crabka.records.record import decode_records
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierPart

NO_MATCH: Final = -1
_PIECE_BYTES: Final = 4 << 20


def first_offset_at(objects: SegmentObjects, parts: Sequence[TierPart], timestamp_ms: int) -> int:
    """Return the offset of the first record at or after a time, NO_MATCH if there is none.

    Raises TierReadError, CorruptBatchError, RemoteBackendError.
    """
    for part in parts:
        if 0 <= part.segment.max_timestamp_ms < timestamp_ms:
            continue
        found = _first_in_part(objects, part, timestamp_ms)
        if found is not None:
            return found
    return NO_MATCH


def _first_in_part(objects: SegmentObjects, part: TierPart, timestamp_ms: int) -> int | None:
    start = max(objects.offset_after(part.segment, timestamp_ms * 1000), part.start)
    position = objects.offset_index(part.segment).floor_position(start)
    for header, batch in _batches(objects, part, position):
        if header.base_offset >= part.end:
            return None
        if header.max_timestamp < timestamp_ms or header.last_offset < part.start:
            continue
        for record in decode_records(batch, header):
            if record.timestamp >= timestamp_ms and part.start <= record.offset < part.end:
                return record.offset
    return None


def _batches(objects: SegmentObjects, part: TierPart, position: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    size_bytes = part.segment.segment_size_bytes
    wanted = _PIECE_BYTES
    while position < size_bytes:
        data = objects.batch_bytes(part.segment, range(position, min(position + wanted, size_bytes)))
        consumed = 0
        for start, header in iter_headers(data):
            consumed = start + header.size_in_bytes
            yield header, memoryview(data)[start:consumed]
        # A batch that is larger than a piece needs a larger piece.
        wanted = _PIECE_BYTES if consumed else wanted * 2
        if not consumed and position + wanted // 2 >= size_bytes:
            return
        position += consumed
