"""Leaves out of a plan what cannot have rows that pass: by offsets, and by times as far as they can be relied on."""

from __future__ import annotations

from dataclasses import replace

from crabka.ids import TopicPartition
from crabka.spark.plan.append_time import without_later
from crabka.spark.plan.context import PlanContext
from crabka.spark.plan.filters import NO_FILTERS, RowBounds
from crabka.spark.plan.lineage import TierPart
from crabka.spark.plan.ranges import BrokerRange
from crabka.spark.plan.retries import with_retries


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
