"""Cuts parts of segments into byte ranges of a size that suits a task, and packs them into splits.

An index entry that sends a reader past its rows must not go unnoticed. If a range begins too late, its reader sees it.
For the batches where ranges end, the plan reads the offsets here.

Larger splits keep the number of tasks below its limit; options of Spark's source can ask for more and smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.file_names import LOG_SUFFIX
from crabka.formats.object_names import ObjectName
from crabka.formats.offset_index import OffsetIndex
from crabka.ids import uuid_to_text
from crabka.remote.layout import object_path, partition_directory
from crabka.remote.segments import IndexType, TopicIdPartition
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierPart
from crabka.spark.plan.ranges import AbortedSpans, BrokerRange, PlannedRange, Split, TierRange

TARGET_BYTES: Final = 64 << 20
# However small segments are, to begin with one takes a task about as long as to read a quarter of a MiB.
MAX_RANGES: Final = 256
# A range may be that much larger than wanted before it is cut: a small rest is not worth a task.
_SLACK: Final = 1.5
AbortedIn = Callable[[TierPart, int, int], AbortedSpans | None]
"""Returns the aborted transactions of a part between two offsets."""


class SplitLimits(NamedTuple):
    """What is asked of the splits."""

    max_tasks: int
    min_partitions: int | None = None
    max_records: int | None = None


class _Piece(NamedTuple):
    start: int
    end: int
    start_byte: int
    end_byte: int
    # Whether the batch with just that offset begins there, so that no batch of the piece crosses it.
    starts_at_cut: bool = False
    ends_at_cut: bool = False


def limits_per_task(limits: SplitLimits, *, records: int, size_bytes: int) -> SplitLimits:
    """Return the limits in which a number of tasks that is asked for limits the records of each, as in Spark's source.

    Many bytes become enough tasks by themselves.
    """
    wanted = min(limits.min_partitions or 0, limits.max_tasks)
    if not wanted or size_bytes >= wanted * TARGET_BYTES:
        return limits
    share = max(-(-records // wanted), 1)
    return limits._replace(max_records=min(share, limits.max_records or share))


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


def cut_positions(positions: Sequence[int], start_byte: int, end_byte: int, target: int) -> list[int]:
    """Return where to cut a range of bytes: at some of the positions, about `target` bytes apart."""
    cuts: list[int] = []
    last = start_byte
    for position in positions:
        if position - last >= target and end_byte - position >= target * (_SLACK - 1):
            cuts.append(position)
            last = position
    return cuts


def needs_cutting(size_bytes: int, target: int) -> bool:
    """Return whether a range is so large that it should be cut."""
    return size_bytes > target * _SLACK


def target_bytes(total_bytes: int, limits: SplitLimits) -> int:
    """Return how many bytes a split should have."""
    target = TARGET_BYTES
    if limits.min_partitions is not None:
        target = min(target, max(total_bytes // limits.min_partitions, 1))
    return max(target, -(-total_bytes // limits.max_tasks))


def make_splits(ranges: Sequence[PlannedRange], limits: SplitLimits) -> tuple[Split, ...]:
    """Return the splits of ranges that were cut already."""
    tier = [each for each in ranges if isinstance(each, TierRange)]
    broker = [each for each in ranges if isinstance(each, BrokerRange)]
    target = target_bytes(sum(each.size_bytes for each in tier), limits)
    packed = [Split(tuple(pack)) for pack in _pack(tier, target, limits.max_records)]
    cut = [Split((piece,)) for piece in _cut_broker_ranges(broker, limits, len(packed))]
    return tuple(_at_most([*packed, *cut], limits.max_tasks))


def cut_broker_range(whole: BrokerRange, pieces: int) -> list[BrokerRange]:
    """Return a range in pieces of about the same number of offsets."""
    size = whole.end_offset - whole.start_offset
    pieces = max(min(pieces, size), 1)
    borders = [whole.start_offset + size * index // pieces for index in range(pieces + 1)]
    return [BrokerRange(whole.topic, whole.topic_id, whole.partition, start, end) for start, end in pairwise(borders)]


def _pack(ranges: Sequence[TierRange], target: int, max_records: int | None) -> Iterator[list[TierRange]]:
    """Yield neighbours together until they have enough bytes, or are as many, or have as many offsets, as allowed."""
    pack: list[TierRange] = []
    size = records = 0
    for each in ranges:
        count = each.end_offset - each.start_offset
        too_many = max_records is not None and records + count > max_records
        if pack and (size + each.size_bytes > target or len(pack) == MAX_RANGES or too_many):
            yield pack
            pack, size, records = [], 0, 0
        pack.append(each)
        size += each.size_bytes
        records += count
    if pack:
        yield pack


def _cut_broker_ranges(ranges: Sequence[BrokerRange], limits: SplitLimits, others: int) -> list[BrokerRange]:
    """Return the ranges as they are, or in as many pieces as Spark's source would make of them."""
    if limits.max_records is not None:
        ranges = [
            piece
            for each in ranges
            for piece in cut_broker_range(each, -(-(each.end_offset - each.start_offset) // limits.max_records))
        ]
    wanted = (limits.min_partitions or 0) - others
    if wanted <= len(ranges):
        return list(ranges)
    total = sum(each.end_offset - each.start_offset for each in ranges)
    return [
        piece
        for each in ranges
        for piece in cut_broker_range(each, round((each.end_offset - each.start_offset) / total * wanted))
    ]


def _at_most(splits: list[Split], max_tasks: int) -> list[Split]:
    """Return the splits, neighbours joined where there are more than allowed."""
    if len(splits) <= max_tasks:
        return splits
    per_task = -(-len(splits) // max_tasks)
    return [
        Split(tuple(each for split in splits[start : start + per_task] for each in split.ranges))
        for start in range(0, len(splits), per_task)
    ]
