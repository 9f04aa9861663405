"""Cuts ranges into splits: byte ranges between index entries, of a size that suits a task, several of them per task.

Larger splits keep the number of tasks below its limit; options of Spark's source can ask for more and smaller ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from crabka.spark.plan.ranges import BrokerRange, PlannedRange, Split, TierRange

TARGET_BYTES: Final = 64 << 20
# However small segments are, to begin with one takes a task about as long as to read a quarter of a MiB.
MAX_RANGES: Final = 256
# A range may be that much larger than wanted before it is cut: a small rest is not worth a task.
_SLACK: Final = 1.5


class SplitLimits(NamedTuple):
    """What is asked of the splits."""

    max_tasks: int
    min_partitions: int | None = None
    max_records: int | None = None


def limits_per_task(limits: SplitLimits, *, records: int, size_bytes: int) -> SplitLimits:
    """Return the limits in which a number of tasks that is asked for limits the records of each, as in Spark's source.

    Many bytes become enough tasks by themselves.
    """
    wanted = min(limits.min_partitions or 0, limits.max_tasks)
    if not wanted or size_bytes >= wanted * TARGET_BYTES:
        return limits
    share = max(-(-records // wanted), 1)
    return limits._replace(max_records=min(share, limits.max_records or share))


def target_bytes(total_bytes: int, limits: SplitLimits) -> int:
    """Return how many bytes a split should have."""
    target = TARGET_BYTES
    if limits.min_partitions is not None:
        target = min(target, max(total_bytes // limits.min_partitions, 1))
    return max(target, -(-total_bytes // limits.max_tasks))


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


def cut_broker_range(whole: BrokerRange, pieces: int) -> list[BrokerRange]:
    """Return a range in pieces of about the same number of offsets."""
    size = whole.end_offset - whole.start_offset
    pieces = max(min(pieces, size), 1)
    borders = [whole.start_offset + size * index // pieces for index in range(pieces + 1)]
    return [BrokerRange(whole.topic, whole.topic_id, whole.partition, start, end) for start, end in pairwise(borders)]


def make_splits(ranges: Sequence[PlannedRange], limits: SplitLimits) -> tuple[Split, ...]:
    """Return the splits of ranges that were cut already."""
    tier = [each for each in ranges if isinstance(each, TierRange)]
    broker = [each for each in ranges if isinstance(each, BrokerRange)]
    target = target_bytes(sum(each.size_bytes for each in tier), limits)
    packed = [Split(tuple(pack)) for pack in _pack(tier, target, limits.max_records)]
    cut = [Split((piece,)) for piece in _cut_broker_ranges(broker, limits, len(packed))]
    return tuple(_at_most([*packed, *cut], limits.max_tasks))


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
