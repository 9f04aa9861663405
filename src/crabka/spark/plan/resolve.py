"""From limits to offsets: what earliest, latest and times mean for partitions, and whether those offsets are there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import assert_never

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.errors import DataLossError, lose
from crabka.spark.options.offset_json import EARLIEST, LATEST
from crabka.spark.options.selection import (
    EarliestLimit,
    GlobalTimestampLimit,
    LatestLimit,
    OffsetLimit,
    OffsetsLimit,
    TimestampsLimit,
)
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.catalog.timestamp_lookup import first_offset_at
from crabka.spark.plan.context import PlanContext, is_tier_only, with_retries
from crabka.spark.plan.survey import PartitionSurvey, Survey

Offsets = dict[TopicPartition, int]


def resolve_start(context: PlanContext, survey: Survey, limit: OffsetLimit) -> Offsets:
    """Return where each partition begins. Raises ConfigError, also for a time that no record has reached."""

    def without_match(partition: TopicPartition, timestamp_ms: int) -> int:
        if not context.options.latest_without_match:
            raise ConfigError(
                f"no record of {partition} is of {timestamp_ms} or later; "
                "startingOffsetsByTimestampStrategy=latest would begin at its end"
            )
        return survey.partitions[partition].latest

    return _resolve(context, survey, limit, "starting", without_match)


def resolve_end(context: PlanContext, survey: Survey, limit: OffsetLimit) -> Offsets:
    """Return where each partition ends; a time that no record has reached is the end. Raises ConfigError."""
    return _resolve(context, survey, limit, "ending", lambda partition, _: survey.partitions[partition].latest)


def is_resolved_late(limit: OffsetLimit, partition: TopicPartition) -> bool:
    """Return whether a limit is earliest or latest for a partition; Spark's source compares these with no other."""
    match limit:
        case EarliestLimit() | LatestLimit():
            return True
        case OffsetsLimit(offsets):
            return offsets.get(partition) in (EARLIEST, LATEST)
    return False


def _resolve(
    context: PlanContext,
    survey: Survey,
    limit: OffsetLimit,
    which: str,
    without_match: Callable[[TopicPartition, int], int],
) -> Offsets:
    known = survey.partitions
    match limit:
        case EarliestLimit():
            return {partition: each.earliest for partition, each in known.items()}
        case LatestLimit():
            return {partition: each.latest for partition, each in known.items()}
        case OffsetsLimit(offsets):
            _require_all(offsets, known, f"{which}Offsets", "; use -1 for latest and -2 for earliest")
            return {partition: _special(offset, known[partition]) for partition, offset in offsets.items()}
        case TimestampsLimit(timestamps):
            _require_all(timestamps, known, f"{which}OffsetsByTimestamp", "")
            return _by_timestamp(context, survey, timestamps, without_match)
        case GlobalTimestampLimit(timestamp_ms):
            return _by_timestamp(context, survey, dict.fromkeys(known, timestamp_ms), without_match)
        case _:
            assert_never(limit)


def _special(offset: int, survey: PartitionSurvey) -> int:
    match offset:
        case _ if offset == LATEST:
            return survey.latest
        case _ if offset == EARLIEST:
            return survey.earliest
    return offset


def _require_all(
    given: Mapping[TopicPartition, int], known: Mapping[TopicPartition, PartitionSurvey], option: str, hint: str
) -> None:
    """Refuse a list that misses a partition or has one that is not read."""
    missing = sorted(known.keys() - given.keys())
    if missing:
        raise ConfigError(f"{option} must name all partitions that are read, it lacks {missing[0]}{hint}")
    extra = sorted(given.keys() - known.keys())
    if extra:
        raise ConfigError(f"{option} names {extra[0]}, which is not among the partitions that are read")


def _by_timestamp(
    context: PlanContext,
    survey: Survey,
    timestamps: Mapping[TopicPartition, int],
    without_match: Callable[[TopicPartition, int], int],
) -> Offsets:
    session, objects = context.session, context.objects
    if session is not None:
        committed = context.options.read_committed
        found = with_retries(context.options, lambda: session.offsets(timestamps, read_committed=committed))
    else:
        assert objects is not None  # noqa: S101 - the options were checked
        found = {
            partition: first_offset_at(objects, survey.partitions[partition].parts, timestamp_ms)
            for partition, timestamp_ms in timestamps.items()
        }
    # What lies after the end of a batch query cannot be read by it, though brokers know its time: it may not be in the
    # tier yet, or after an open transaction. A streaming query gets there.
    is_batch = not context.options.streaming
    return {
        partition: without_match(partition, timestamps[partition])
        if offset < 0 or (is_batch and offset >= survey.partitions[partition].latest)
        else offset
        for partition, offset in found.items()
    }


def check_partitions(
    options: SourceOptions,
    survey: Survey,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Report partitions that appeared or vanished since the offsets were taken, as Spark's own source does."""
    gone = ends.keys() - survey.partitions.keys()
    if options.streaming:
        gone |= starts.keys() - ends.keys()
    for partition in sorted(gone):
        lose(options, DataLossError(f"{partition} no longer exists"))
    for partition in sorted(ends.keys() - starts.keys() - gone) if options.streaming else ():
        earliest = survey.partitions[partition].earliest
        if earliest > 0:
            lose(
                options,
                DataLossError(f"offsets 0 to {earliest - 1} of {partition}, which is new to the query, are gone"),
            )


def available_ranges(
    context: PlanContext, survey: Survey, starts: Offsets, ends: Offsets, open_ended: Collection[TopicPartition] = ()
) -> dict[TopicPartition, range]:
    """Return the offsets to read. Raises ConfigError for an end before its start, DataLossError for what is gone.

    As in Spark's source an empty range may lie anywhere. In `open_ended` partitions, where earliest or latest decides
    one side, an end before the start is an empty range.
    """
    checked: dict[TopicPartition, range] = {}
    for partition in sorted(starts):
        start, end = starts[partition], ends[partition]
        if start < end:
            checked[partition] = _available(context, partition, range(start, end), survey.partitions[partition])
        elif start == end or partition in open_ended:
            checked[partition] = range(start, start)
        else:
            message = f"the starting offset {start} of {partition} is after the ending offset {end}"
            if not context.options.streaming:
                raise ConfigError(message)
            lose(context.options, DataLossError(f"{message}: the topic may have been created anew"))
    return checked


def _available(context: PlanContext, partition: TopicPartition, wanted: range, known: PartitionSurvey) -> range:
    """Return the available part of a range. Raises DataLossError."""
    options = context.options
    if wanted.start < known.earliest:
        gone = f"offsets {wanted.start} to {min(known.earliest, wanted.stop) - 1} of {partition} are gone"
        lose(options, DataLossError(gone))
    end = min(wanted.stop, known.latest)
    if end < wanted.stop:
        lose(
            options,
            DataLossError(
                f"offsets {max(known.latest, wanted.start)} to {wanted.stop - 1} of {partition} are not there"
            ),
        )
        if options.streaming and not is_tier_only(options):
            # Spark commits the end that it logged: the broker may have the rest when the task asks for it.
            end = wanted.stop
    start = max(wanted.start, known.earliest)
    return range(start, max(start, end))
