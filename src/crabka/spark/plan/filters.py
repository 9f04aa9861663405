"""The conditions of the option `where` as bounds that segments and ranges can be checked against.

They only prune: all conditions are applied to the rows as well. Timestamps are in microseconds, as Spark has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from crabka.spark.source.where_option import ComparisonOperator, Condition, Constant

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
