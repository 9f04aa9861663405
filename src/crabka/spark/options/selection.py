"""What is read: which partitions, and from where to where, as the options say and before a cluster or a tier is asked.

A strategy chooses partitions: named ones, those of named topics, or those of topics whose names match. Limits have the
precedence of Spark's Kafka source, and what a batch or a streaming query may not say is refused as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.options.java_patterns import compile_java_pattern
from crabka.spark.options.names import (
    ASSIGN,
    ENDING_OFFSETS,
    ENDING_OFFSETS_BY_TIMESTAMP,
    ENDING_TIMESTAMP,
    STARTING_OFFSETS,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_TIMESTAMP,
    STRATEGIES,
    SUBSCRIBE,
    SUBSCRIBE_PATTERN,
    OptionValues,
)
from crabka.spark.options.offset_json import EARLIEST, LATEST, parse_offsets, parse_partitions, parse_timestamps


@dataclass(frozen=True, slots=True)
class EarliestLimit:
    """The first available offset."""


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


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions only."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics whose names contain a match of the pattern, in Java's syntax."""

    pattern: str

    def matches(self, topic: str) -> bool:
        """Return whether the pattern is found anywhere in the name, as Spark's source looks for it."""
        return compile_java_pattern(self.pattern).search(topic) is not None


Strategy = Assign | Subscribe | SubscribePattern
_STARTING: Final = (STARTING_TIMESTAMP, STARTING_OFFSETS_BY_TIMESTAMP, STARTING_OFFSETS)
_ENDING: Final = (ENDING_TIMESTAMP, ENDING_OFFSETS_BY_TIMESTAMP, ENDING_OFFSETS)


def parse_strategy(options: Mapping[str, str]) -> Strategy:
    """Return which partitions are read. Raises ConfigError unless exactly one strategy is given and valid."""
    given = [name for name in STRATEGIES if name in options]
    if len(given) != 1:
        raise ConfigError(f"{'one' if not given else 'only one'} of {', '.join(STRATEGIES)} must be given")
    name, value = given[0], options[given[0]].strip()
    if name == ASSIGN:
        if not value.startswith("{"):
            raise ConfigError(f"{ASSIGN}: no partitions to read in {value!r}")
        return Assign(parse_partitions(value, ASSIGN))
    if name == SUBSCRIBE:
        topics = frozenset(topic.strip() for topic in value.split(",") if topic.strip())
        if not topics:
            raise ConfigError(f"{SUBSCRIBE}: no topics to read in {value!r}")
        return Subscribe(topics)
    return _pattern(value)


def _pattern(value: str) -> SubscribePattern:
    if not value:
        raise ConfigError(f"{SUBSCRIBE_PATTERN}: the pattern is empty")
    try:
        compile_java_pattern(value)
    except ValueError as error:
        raise ConfigError(f"{SUBSCRIBE_PATTERN}: {value} is not a usable regular expression: {error}") from None
    return SubscribePattern(value)


def parse_limits(options: Mapping[str, str], *, streaming: bool) -> tuple[OffsetLimit, OffsetLimit]:
    """Return start and end. Raises ConfigError in the cases in which Spark's source does."""
    if streaming:
        for name in _ENDING:
            if name in options:
                raise ConfigError(f"{name} is not valid in streaming queries, which do not end")
        return _limit(options, _STARTING, LatestLimit()), LatestLimit()
    starting = _limit(options, _STARTING, EarliestLimit())
    ending = _limit(options, _ENDING, LatestLimit())
    _check_batch_start(starting)
    _check_batch_end(ending)
    _check_order(starting, ending)
    return starting, ending


def _limit(options: Mapping[str, str], names: tuple[str, str, str], default: OffsetLimit) -> OffsetLimit:
    """Return the limit of the first given one of three options."""
    by_time, by_partition_time, by_offset = names
    timestamp = OptionValues(options).number(by_time)
    if timestamp is not None:
        return GlobalTimestampLimit(timestamp)
    if by_partition_time in options:
        return TimestampsLimit(parse_timestamps(options[by_partition_time].strip(), by_partition_time))
    if by_offset not in options:
        return default
    text = options[by_offset].strip()
    match text.lower():
        case "latest":
            return LatestLimit()
        case "earliest":
            return EarliestLimit()
    return OffsetsLimit(parse_offsets(text, by_offset))


def _check_batch_start(limit: OffsetLimit) -> None:
    match limit:
        case LatestLimit():
            raise ConfigError(f"{STARTING_OFFSETS} can't be latest in a batch query")
        case OffsetsLimit(offsets):
            _refuse(offsets, LATEST, f"{STARTING_OFFSETS} of {{}} can't be latest in a batch query")


def _check_batch_end(limit: OffsetLimit) -> None:
    match limit:
        case EarliestLimit():
            raise ConfigError(f"{ENDING_OFFSETS} can't be earliest in a batch query")
        case OffsetsLimit(offsets):
            _refuse(offsets, EARLIEST, f"{ENDING_OFFSETS} of {{}} can't be earliest in a batch query")


def _refuse(offsets: Mapping[TopicPartition, int], refused: int, message: str) -> None:
    for partition in sorted(offsets):
        if offsets[partition] == refused:
            raise ConfigError(message.format(partition))


def _check_order(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Refuse limits of the same kind whose start is after their end."""
    match starting, ending:
        case OffsetsLimit(starts), OffsetsLimit(ends):
            _check_pairs(starts, ends, "offset")
        case TimestampsLimit(starts), TimestampsLimit(ends):
            _check_pairs(starts, ends, "timestamp")


def _check_pairs(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], what: str) -> None:
    if starts.keys() != ends.keys():
        odd = min(starts.keys() ^ ends.keys())
        raise ConfigError(
            f"the starting and the ending {what}s name different partitions: {odd} is in only one of them"
        )
    for partition in sorted(starts):
        # Latest and earliest are below zero, and what they mean is not known yet.
        if starts[partition] > ends[partition] >= 0:
            message = f"the starting {what} {starts[partition]} of {partition} is after the ending {ends[partition]}"
            raise ConfigError(message)
