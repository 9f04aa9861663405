"""Predicates that Spark pushes down, as bounds that segments and ranges can be checked against.

They only prune: Spark applies all of them again to the rows. Whatever is not understood is passed over. Timestamps are
in microseconds, as Spark has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX: Final = (1 << 63) - 1
_EQUALITIES: Final = ("EqualTo", "EqualNullSafe")


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """Bounds, both ends included. None for topics and partitions is any."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    min_offset: int = 0
    max_offset: int = _MAX
    min_timestamp_us: int = -_MAX
    max_timestamp_us: int = _MAX

    def allows(self, topic: str, partition: int) -> bool:
        """Return whether rows of a partition can pass."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
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


NO_FILTERS: Final = PushedFilters()


def pushed_filters(filters: Iterable[Any]) -> PushedFilters:
    """Return the bounds that all of Spark's filters, joined by and, set."""
    bounds = NO_FILTERS
    for each in filters:
        column = _column(each)
        if column is not None:
            bounds = _narrow(bounds, type(each).__name__, column, each.value)
    return bounds


def _column(each: Any) -> str | None:
    """Return the column that a filter with a value is about; None for all other filters."""
    attribute = getattr(each, "attribute", None)
    if not isinstance(attribute, tuple) or len(attribute) != 1 or not hasattr(each, "value"):
        return None
    return str(attribute[0]).lower()


def _narrow(bounds: PushedFilters, kind: str, column: str, value: Any) -> PushedFilters:
    match column:
        case "topic":
            chosen = _chosen(kind, value, str)
            return bounds if chosen is None else replace(bounds, topics=_common(bounds.topics, chosen))
        case "partition":
            return _narrow_partition(bounds, kind, value)
        case "offset":
            low, high = _range(kind, value, _whole)
            low, high = max(low, bounds.min_offset), min(high, bounds.max_offset)
            return replace(bounds, min_offset=low, max_offset=high)
        case "timestamp":
            low, high = _range(kind, value, _microseconds)
            low, high = max(low, bounds.min_timestamp_us), min(high, bounds.max_timestamp_us)
            return replace(bounds, min_timestamp_us=low, max_timestamp_us=high)
    return bounds


def _narrow_partition(bounds: PushedFilters, kind: str, value: Any) -> PushedFilters:
    chosen = _chosen(kind, value, int)
    if chosen is None:
        return bounds
    return replace(bounds, partitions=_common(bounds.partitions, chosen))


def _chosen(kind: str, value: Any, wanted: type) -> frozenset[Any] | None:
    """Return the values that an equality or a list allows; None if the filter is of another kind."""
    if kind in _EQUALITIES and isinstance(value, wanted):
        return frozenset((value,))
    if kind == "In" and all(isinstance(each, wanted) for each in value if each is not None):
        return frozenset(each for each in value if each is not None)
    return None


def _common(known: frozenset[Any] | None, chosen: frozenset[Any]) -> frozenset[Any]:
    return chosen if known is None else known & chosen


def _range(kind: str, value: Any, convert: Any) -> tuple[int, int]:
    """Return the smallest and the largest number that a comparison allows."""
    everything = (-_MAX, _MAX)
    if kind == "In":
        numbers = [convert(each) for each in value if each is not None]
        return everything if not numbers or None in numbers else (min(numbers), max(numbers))
    number = convert(value)
    if number is None:
        return everything
    match kind:
        case "EqualTo" | "EqualNullSafe":
            return number, number
        case "GreaterThan":
            return number + 1, _MAX
        case "GreaterThanOrEqual":
            return number, _MAX
        case "LessThan":
            return -_MAX, number - 1
        case "LessThanOrEqual":
            return -_MAX, number
    return everything


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: Any) -> int | None:
    # A time without a zone would mean that of somebody's machine.
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _MICROSECOND
