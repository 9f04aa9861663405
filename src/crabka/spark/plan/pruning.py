"""Leaves out of a plan what cannot have rows that pass `where`: by offsets, and by times as far as they are reliable.

Conditions only prune here: they are applied to the rows as well. Timestamps are in microseconds, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from crabka.ids import TopicPartition
from crabka.spark.options.where import ComparisonOperator, Condition, Constant
from crabka.spark.plan.append_time import without_later
from crabka.spark.plan.catalog.segments import TierPart
from crabka.spark.plan.context import PlanContext, with_retries
from crabka.spark.plan.ranges import BrokerRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Bounds, both ends included. None for topics and partitions is any."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    min_partition: int = 0
    max_partition: int = _MAX
    min_offset: int = 0
    max_offset: int = _MAX
    min_timestamp_us: int = -_MAX
    max_timestamp_us: int = _MAX

    def allows(self, topic: str, partition: int) -> bool:
        """Return whether rows of a partition can pass."""
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and self.min_partition <= partition <= self.max_partition
        )

    def may_hold(self, max_timestamp_ms: int) -> bool:
        """Return whether a segment whose latest record is of that time can have rows that pass; -1 is unknown."""
        return max_timestamp_ms < 0 or max_timestamp_ms * 1000 >= self.min_timestamp_us

    @property
    def has_earliest_time(self) -> bool:
        """Whether rows must not be older than something."""
        return self.min_timestamp_us > -_MAX

    @property
    def has_latest_time(self) -> bool:
        """Whether rows must not be younger than something."""
        return self.max_timestamp_us < _MAX


NO_FILTERS: Final = RowBounds()


def row_bounds(where: Iterable[Condition]) -> RowBounds:
    """Return the bounds that conditions set, all of which have to hold."""
    bounds = NO_FILTERS
    for each in where:
        match each.column:
            case "topic":
                bounds = replace(bounds, topics=_narrowed(bounds.topics, each))
            case "partition":
                low, high = _range(each)
                low, high = max(low, bounds.min_partition), min(high, bounds.max_partition)
                chosen = _narrowed(bounds.partitions, each)
                bounds = replace(bounds, partitions=chosen, min_partition=low, max_partition=high)
            case "offset":
                low, high = _range(each)
                low, high = max(low, bounds.min_offset), min(high, bounds.max_offset)
                bounds = replace(bounds, min_offset=low, max_offset=high)
            case "timestamp":
                low, high = _range(each)
                low, high = max(low, bounds.min_timestamp_us), min(high, bounds.max_timestamp_us)
                bounds = replace(bounds, min_timestamp_us=low, max_timestamp_us=high)
    return bounds


def _narrowed(known: frozenset[Any] | None, condition: Condition) -> frozenset[Any] | None:
    """Return the values that are still allowed."""
    if condition.operator not in (ComparisonOperator.EQUAL, ComparisonOperator.IN):
        return known
    chosen = frozenset(condition.constants)
    return chosen if known is None else known & chosen


def _range(condition: Condition) -> tuple[int, int]:
    """Return the smallest and the largest number that a comparison allows."""
    numbers = [_number(constant) for constant in condition.constants]
    match condition.operator:
        case ComparisonOperator.EQUAL | ComparisonOperator.IN:
            return min(numbers), max(numbers)
        case ComparisonOperator.GREATER:
            return numbers[0] + 1, _MAX
        case ComparisonOperator.GREATER_OR_EQUAL:
            return numbers[0], _MAX
        case ComparisonOperator.LESS:
            return -_MAX, numbers[0] - 1
        case ComparisonOperator.LESS_OR_EQUAL:
            return -_MAX, numbers[0]
        case ComparisonOperator.NOT_EQUAL:
            return -_MAX, _MAX


def _number(constant: Constant) -> int:
    if isinstance(constant, datetime):
        return (constant - _EPOCH) // _MICROSECOND
    return int(constant)


def clip(part: TierPart, start: int, end: int) -> TierPart:
    """Return what a part has between two offsets."""
    if start <= part.start and part.end <= end:
        return part
    return TierPart(part.segment, max(part.start, start), min(part.end, end))


def prune_parts(context: PlanContext, parts: list[TierPart], filters: RowBounds) -> list[TierPart]:
    """Return what can have rows that pass."""
    if filters is NO_FILTERS:
        return parts
    first, end = filters.min_offset, filters.max_offset + 1
    parts = [clip(part, first, end) for part in parts if part.start < end and part.end > first]
    if filters.has_latest_time and context.objects is not None:
        # Before others are left out: it goes by what follows a segment.
        parts = without_later(context.objects, parts, filters.max_timestamp_us)
    kept: list[TierPart] = []
    was_pruned = True
    for part in parts:
        if not filters.may_hold(part.segment.max_timestamp_ms):
            was_pruned = True
            continue
        start = part.start
        if filters.has_earliest_time and was_pruned and context.objects is not None:
            # Where the time begins, the time index says how much of the segment is older.
            start = max(start, context.objects.offset_after(part.segment, filters.min_timestamp_us))
        was_pruned = False
        if start < part.end:
            kept.append(part._replace(start=start))
    return kept


def narrow_by_time(context: PlanContext, ranges: list[BrokerRange], filters: RowBounds) -> list[BrokerRange]:
    """Return ranges of brokers without what is older than filters allow, as far as brokers know that."""
    session, options = context.session, context.options
    if session is None or not ranges or not filters.has_earliest_time:
        return ranges
    # One millisecond earlier: the search may begin after other records of just the time that is asked for.
    wanted_ms = max(filters.min_timestamp_us // 1000 - 1, 0)
    asked = {TopicPartition(each.topic, each.partition): wanted_ms for each in ranges}
    found = with_retries(options, lambda: session.offsets(asked, read_committed=options.read_committed))
    narrowed: list[BrokerRange] = []
    for each in ranges:
        # Kafka says that there is none also where compaction left an empty segment.
        start = max(each.start_offset, found[TopicPartition(each.topic, each.partition)])
        if start < each.end_offset:
            narrowed.append(replace(each, start_offset=start))
    return narrowed
