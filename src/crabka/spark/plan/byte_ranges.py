"""From offsets to bytes: which bytes of segments hold the parts that are read, cut to the size of a task.

An index that sends a reader past its rows must not go unnoticed. Where a range begins too late its reader sees it; the
batches where ranges end are asked here for their offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.file_names import LOG_SUFFIX
from crabka.formats.object_names import ObjectName
from crabka.formats.offset_index import OffsetIndex
from crabka.ids import uuid_to_text
from crabka.remote.layout import object_path, partition_directory
from crabka.remote.segments import IndexType, TopicIdPartition
from crabka.spark.plan.lineage import TierPart
from crabka.spark.plan.ranges import AbortedSpans, TierRange
from crabka.spark.plan.segment_objects import SegmentObjects
from crabka.spark.plan.splits import cut_positions, needs_cutting

AbortedIn = Callable[[TierPart, int, int], AbortedSpans | None]
"""Returns the aborted transactions of a part between two offsets."""


def tier_ranges(
    parts: Sequence[TierPart],
    objects: SegmentObjects,
    *,
    target_bytes: int,
    max_records: int | None,
    aborted_in: AbortedIn,
) -> list[TierRange]:
    """Return the bytes of parts; indexes are fetched only where a part is not a whole segment of the right size.

    Raises CorruptDataError for an index that does not fit its segment, and what `objects` raises.
    """
    large = [number for number, part in enumerate(parts) if not _fits(part, target_bytes, max_records)]

    def cut(number: int) -> list[_Piece]:
        part = parts[number]
        if not part.segment.segment_size_bytes:
            return []  # compaction took all of its batches
        index = objects.offset_index(part.segment)
        if max_records is not None and part.end - part.start > max_records:
            pieces = _cut_by_records(part, index, max_records)
        else:
            pieces = _cut_by_bytes(part, index, objects, target_bytes)
        if any(piece.start_byte >= piece.end_byte for piece in pieces):
            raise _contradiction(part)
        return pieces

    cut_parts = dict(zip(large, objects.for_all(large, cut), strict=True))
    _check_ends([(parts[number], pieces) for number, pieces in cut_parts.items()], objects)
    found: list[TierRange] = []
    for number, part in enumerate(parts):
        whole = _Piece(part.start, part.end, 0, part.segment.segment_size_bytes)
        found += [
            _range_of(part, piece, aborted_in(part, piece.start, piece.end))
            for piece in cut_parts.get(number, (whole,))
            if piece.start_byte < piece.end_byte
        ]
    return found


class _Piece(NamedTuple):
    start: int
    end: int
    start_byte: int
    end_byte: int
    # Whether the batch with just that offset begins there, so that no batch of the piece crosses it.
    starts_at_cut: bool = False
    ends_at_cut: bool = False


def _range_of(part: TierPart, piece: _Piece, aborted: AbortedSpans | None) -> TierRange:
    segment = part.segment
    partition = segment.topic_id_partition
    topic_id, directory = _place_of(partition)
    return TierRange(
        topic=partition.topic,
        topic_id=topic_id,
        partition=partition.partition,
        start_offset=piece.start,
        end_offset=piece.end,
        object_name=f"{directory}/{ObjectName(segment.start_offset, segment.segment_id.id, LOG_SUFFIX)}",
        start_byte=piece.start_byte,
        end_byte=piece.end_byte,
        aborted=aborted,
        bytes_start_offset=piece.start if piece.starts_at_cut else segment.start_offset,
        bytes_end_offset=piece.end if piece.ends_at_cut else segment.end_offset + 1,
    )


@lru_cache(4096)
def _place_of(partition: TopicIdPartition) -> tuple[str, str]:
    """Return the id of a topic as text and the directory of a partition, which all its segments share."""
    return uuid_to_text(partition.topic_id), partition_directory(partition)


def _fits(part: TierPart, target_bytes: int, max_records: int | None) -> bool:
    """Return whether a part is a whole segment that one task can read."""
    segment = part.segment
    is_whole = part.start <= segment.start_offset and part.end > segment.end_offset
    too_many = max_records is not None and part.end - part.start > max_records
    return is_whole and not too_many and not needs_cutting(segment.segment_size_bytes, target_bytes)


def _contradiction(part: TierPart) -> CorruptDataError:
    return CorruptDataError(
        object_path(part.segment, IndexType.OFFSET), "it contradicts the batches at the positions that it names"
    )


def _check_ends(cut_parts: Sequence[tuple[TierPart, Sequence[_Piece]]], objects: SegmentObjects) -> None:
    """Raise CorruptDataError where the batch after a piece begins before the piece is to end."""
    ends = {
        (part, piece.end_byte): piece.end
        for part, pieces in cut_parts
        for piece in pieces
        if not piece.ends_at_cut and piece.end_byte < part.segment.segment_size_bytes
    }

    def check(place: tuple[TierPart, int]) -> None:
        part, position = place
        if objects.base_offset_at(part.segment, position) < ends[place]:
            raise _contradiction(part)

    objects.for_all(ends, check)


def _cut_by_records(part: TierPart, index: OffsetIndex, max_records: int) -> list[_Piece]:
    size = part.end - part.start
    pieces = -(-size // max_records)
    borders = [part.start + size * number // pieces for number in range(pieces + 1)]
    size_bytes = part.segment.segment_size_bytes
    return [
        _Piece(start, end, index.floor_position(start), _end_byte(index, end, size_bytes))
        for start, end in pairwise(borders)
    ]


def _end_byte(index: OffsetIndex, end_offset: int, size_bytes: int) -> int:
    """Return a position after all records below an offset, where a batch begins or the segment ends."""
    position = index.position_after(end_offset - 1)
    return size_bytes if position is None else position


def _cut_by_bytes(part: TierPart, index: OffsetIndex, objects: SegmentObjects, target_bytes: int) -> list[_Piece]:
    segment = part.segment
    start_byte = index.floor_position(part.start) if part.start > segment.start_offset else 0
    end_byte = segment.segment_size_bytes
    if part.end <= segment.end_offset:
        end_byte = _end_byte(index, part.end, segment.segment_size_bytes)
    cuts: list[int] = []
    if needs_cutting(end_byte - start_byte, target_bytes):
        cuts = cut_positions(index.positions, start_byte, end_byte, target_bytes)
    offsets = [objects.base_offset_at(segment, position) for position in cuts]
    # A cut next to an end may fall on the batch that straddles it; then there is nothing to cut off.
    inner = [(offset, cut) for offset, cut in zip(offsets, cuts, strict=True) if part.start < offset < part.end]
    borders = [(part.start, start_byte), *inner, (part.end, end_byte)]
    return [
        _Piece(start, end, first, last, starts_at_cut=number > 0, ends_at_cut=number < len(inner))
        for number, ((start, first), (end, last)) in enumerate(pairwise(borders))
    ]
