"""Where a read begins or ends, before brokers or the tier were asked what that means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crabka.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class EarliestLimit:
    """The first offset that there is."""


@dataclass(frozen=True, slots=True)
class LatestLimit:
    """The end: of all records, or of the committed ones."""


@dataclass(frozen=True, slots=True)
class OffsetsLimit:
    """An offset of each partition; -1 is latest, -2 is earliest."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TimestampsLimit:
    """The first offset at or after a time, in milliseconds, of each partition."""

    timestamps: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestampLimit:
    """The same time for all partitions."""

    timestamp_ms: int


OffsetLimit = EarliestLimit | LatestLimit | OffsetsLimit | TimestampsLimit | GlobalTimestampLimit
