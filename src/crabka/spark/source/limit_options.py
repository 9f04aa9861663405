"""Where a read begins and ends, from the options: their precedence, and what a query of either kind may not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.source.offset_json import EARLIEST, LATEST, parse_offsets, parse_timestamps
from crabka.spark.source.offset_limits import (
    EarliestLimit,
    GlobalTimestampLimit,
    LatestLimit,
    OffsetLimit,
    OffsetsLimit,
    TimestampsLimit,
)
from crabka.spark.source.option_names import (
    ENDING_OFFSETS,
    ENDING_OFFSETS_BY_TIMESTAMP,
    ENDING_TIMESTAMP,
    STARTING_OFFSETS,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_TIMESTAMP,
)
from crabka.spark.source.option_values import OptionValues

_STARTING: Final = (STARTING_TIMESTAMP, STARTING_OFFSETS_BY_TIMESTAMP, STARTING_OFFSETS)
_ENDING: Final = (ENDING_TIMESTAMP, ENDING_OFFSETS_BY_TIMESTAMP, ENDING_OFFSETS)


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
    """Return what is said by the first of the three options that is given."""
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
    """Refuse what contradicts itself whatever the topics hold: the same kind of limit, with start after end."""
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
