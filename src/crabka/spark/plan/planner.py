"""Plans: which task reads which bytes of the tier and which offsets from brokers.

Spark asks for one plan of a frame, at its first action. Offsets that the tier has are read there, others from brokers.
Conditions only make a plan smaller: rows that do not pass may remain.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from crabka.formats.transaction_index import AbortedTransaction
from crabka.ids import TopicPartition
from crabka.spark.errors import DataLossError, SegmentVanishedError, lose
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.catalog.segments import TierPart
from crabka.spark.plan.context import PlanContext, collection_paused, is_tier_only, open_context
from crabka.spark.plan.history.divergence import LogCutError, ReadPosition
from crabka.spark.plan.history.histories import find_divergences
from crabka.spark.plan.history.witnesses import Chain
from crabka.spark.plan.latest import survey_reaching
from crabka.spark.plan.pruning import NO_FILTERS, RowBounds, clip, narrow_by_time, prune_parts, row_bounds
from crabka.spark.plan.ranges import AbortedSpans, BrokerRange, PlannedRange, PlanReport, ReadPlan, TierRange
from crabka.spark.plan.resolve import available_ranges, check_partitions, is_resolved_late, resolve_end, resolve_start
from crabka.spark.plan.splits import SplitLimits, limits_per_task, make_splits, target_bytes, tier_ranges
from crabka.spark.plan.survey import PartitionSurvey, Survey, make_survey
from crabka.spark.plan.transactions import AbortedTable, LeaderAborts, find_aborted

logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_PLAN_TRIES: Final = 3
_PLAN_PAUSE_S: Final = 0.2


@dataclass(slots=True)
class _Draft:
    """What is to be read of the tier and of brokers, before it is cut."""

    parts: list[TierPart] = field(default_factory=list)
    broker: list[BrokerRange] = field(default_factory=list)
    aborted: dict[TopicPartition, AbortedTable] = field(default_factory=dict)
    pruned: int = 0
    pruned_bytes: int = 0


def plan_read(options: SourceOptions) -> ReadPlan:
    """Return the plan of a batch query. Raises ConfigError, DataLossError and what stores and brokers raise."""
    filters = row_bounds(options.where)

    def plan(context: PlanContext) -> ReadPlan:
        survey = make_survey(context)
        starts = resolve_start(context, survey, options.starting)
        ends = resolve_end(context, survey, options.ending)
        limits = options.starting, options.ending
        open_ended = {p for p in starts if any(is_resolved_late(limit, p) for limit in limits)}
        return make_plan(context, survey, available_ranges(context, survey, starts, ends, open_ended), filters)

    with open_context(options) as context, collection_paused():
        return _again_if_vanished(lambda: plan(context))


def plan_offsets(
    options: SourceOptions,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int] | None,
    chains: Mapping[TopicPartition, Chain] | None = None,
) -> ReadPlan:
    """Return the plan for offsets that are known: those of a micro-batch, or what is new since the last run.

    A partition without a start begins at its first offset; without `ends` all partitions are read to their ends.
    `chains` are witnesses of what lies before the starts, to say where a log was cut that ends before its start.
    """
    positions = {
        partition: ReadPosition(start, (chains or {}).get(partition, ())) for partition, start in starts.items()
    }
    if ends is None:
        known = dict(starts)
    else:
        known = {partition: end for partition, end in ends.items() if end > starts.get(partition, -1)}

    def plan(context: PlanContext) -> ReadPlan:
        survey = survey_reaching(context, known, None if ends is None else ends.keys())
        wanted = {partition: each.latest for partition, each in survey.partitions.items()} if ends is None else ends
        check_partitions(options, survey, starts, wanted)
        there = {partition: end for partition, end in wanted.items() if partition in survey.partitions}
        begin = {partition: starts.get(partition, survey.partitions[partition].earliest) for partition in there}
        cut_off = _report_cut_off(context, survey, {p: each for p, each in positions.items() if p in there})
        return make_plan(context, survey, available_ranges(context, survey, begin, there, cut_off), NO_FILTERS)

    with open_context(options) as context, collection_paused():
        return _again_if_vanished(lambda: plan(context))


def survey_topics(options: SourceOptions) -> Survey:
    """Return a survey of the topics that the options choose, without a plan."""
    with open_context(options) as context, collection_paused():
        return _again_if_vanished(lambda: make_survey(context))


def _report_cut_off(
    context: PlanContext, survey: Survey, positions: Mapping[TopicPartition, ReadPosition]
) -> list[TopicPartition]:
    """Return the partitions that end before they are to be read on. Raises LogCutError, DataLossError."""
    short = {p: position for p, position in positions.items() if position.offset > survey.partitions[p].latest}
    if short and is_tier_only(context.options):
        for partition, position in short.items():
            end = f"the tier ends at offset {survey.partitions[partition].latest} of {partition}"
            reason = "it may not be there yet, or the log was cut"
            lose(context.options, DataLossError(f"{end}, before offset {position.offset} that was reached: {reason}"))
    elif short and (divergences := find_divergences(context, survey, short)):
        lose(context.options, LogCutError(divergences))
    return list(short)


def _again_if_vanished(plan: Callable[[], _Result]) -> _Result:
    """Return a plan; one that met a segment that was just deleted is made again from what the tier has then."""
    for _ in range(_PLAN_TRIES - 1):
        try:
            return plan()
        except SegmentVanishedError as error:
            logger.info("planning again: %s", error)
            time.sleep(_PLAN_PAUSE_S)
    return plan()


def make_plan(
    context: PlanContext, survey: Survey, wanted: Mapping[TopicPartition, range], filters: RowBounds
) -> ReadPlan:
    """Return the plan for offsets that are there."""
    options = context.options
    draft = _Draft()
    for partition, offsets in wanted.items():
        _report_lost(options, survey, partition, offsets)
        _draft_partition(context, draft, partition, (survey.partitions[partition], offsets), filters)
    draft.broker = narrow_by_time(context, draft.broker, filters)
    limits = _limits(options, draft)
    ranges = _tier_ranges(context, draft, limits)
    report = PlanReport(
        segments=len({each.object_name for each in ranges}),
        bytes=sum(each.size_bytes for each in ranges),
        pruned=draft.pruned,
        ignored=survey.ignored,
        broker_ranges=len(draft.broker),
        pruned_bytes=draft.pruned_bytes,
    )
    all_ranges: list[PlannedRange] = [*ranges, *draft.broker]
    plan = ReadPlan(
        splits=make_splits(all_ranges, limits),
        ranges={(p.topic, p.partition): (offsets.start, offsets.stop) for p, offsets in wanted.items()},
        topic_ids={partition.topic: survey.partitions[partition].id_text for partition in wanted},
        report=report,
        tier_uri=context.tier_uri,
        survey=survey,
    )
    _log_plan(plan)
    return plan


def _report_lost(options: SourceOptions, survey: Survey, partition: TopicPartition, offsets: range) -> None:
    """Report segments that the tier had and that cannot be read. Raises DataLossError."""
    known = survey.partitions[partition]
    for segment in survey.lost.get(partition, ()):
        if segment.concerns(offsets, known.earliest, known.latest):
            lose(options, segment.error)


def _draft_partition(
    context: PlanContext,
    draft: _Draft,
    partition: TopicPartition,
    known: tuple[PartitionSurvey, range],
    filters: RowBounds,
) -> None:
    survey, offsets = known
    clipped = [
        clip(part, offsets.start, offsets.stop)
        for part in survey.parts
        if max(part.start, offsets.start) < min(part.end, offsets.stop)
    ]
    gaps = _gaps(clipped, offsets)
    if gaps and is_tier_only(context.options):
        for gap in gaps:
            # Compaction that leaves nothing between two segments looks the same as a segment that is lost.
            missing = f"offsets {gap.start} to {gap.stop - 1} of {partition} are not in the tier"
            lose(context.options, DataLossError(f"{missing}; compaction may have removed them"))
        gaps = []
    kept = [] if not filters.allows(*partition) else prune_parts(context, clipped, filters)
    draft.pruned += len(clipped) - len(kept)
    draft.pruned_bytes += sum(p.segment.segment_size_bytes for p in clipped) - sum(
        p.segment.segment_size_bytes for p in kept
    )
    draft.parts += kept
    for gap in gaps if filters.allows(*partition) else ():
        start, end = max(gap.start, filters.min_offset), min(gap.stop, filters.max_offset + 1)
        if start < end:
            draft.broker.append(BrokerRange(partition.topic, survey.id_text, partition.partition, start, end))
    if context.options.read_committed and kept:
        draft.aborted[partition] = _aborted(context, partition, survey, kept)


def _gaps(parts: list[TierPart], offsets: range) -> list[range]:
    """Return the offsets that no part has."""
    gaps: list[range] = []
    position = offsets.start
    for part in parts:
        if part.start > position:
            gaps.append(range(position, part.start))
        position = max(position, part.end)
    if position < offsets.stop:
        gaps.append(range(position, offsets.stop))
    return gaps


def _aborted(
    context: PlanContext, partition: TopicPartition, survey: PartitionSurvey, parts: list[TierPart]
) -> AbortedTable:
    """Return the aborted transactions that may concern parts, also those whose markers are not in the tier."""
    assert context.objects is not None  # noqa: S101 - parts come from a tier
    if context.session is None:
        # Markers that are not in the tier are not known: the survey ends before the first open transaction.
        return AbortedTable(find_aborted(parts, survey.parts, context.objects))
    leader = LeaderAborts(context.session, partition, survey.id_text, context.options.poll_timeout_ms)

    def ask(border: int) -> list[AbortedTransaction]:
        # What is read ends with the last stable offset, and leaders report nothing from there on.
        return leader.across(min(border, survey.latest))

    return AbortedTable(find_aborted(parts, survey.parts, context.objects, ask))


def _limits(options: SourceOptions, draft: _Draft) -> SplitLimits:
    """Return what is asked of the splits of a draft."""
    limits = SplitLimits(options.max_tasks, options.min_partitions, options.max_records_per_partition)
    return limits_per_task(
        limits,
        records=sum(part.end - part.start for part in draft.parts)
        + sum(each.end_offset - each.start_offset for each in draft.broker),
        size_bytes=sum(map(_size_bytes, draft.parts)),
    )


def _size_bytes(part: TierPart) -> int:
    """Return about how many bytes a part has, by its share of the offsets of its segment."""
    segment = part.segment
    return segment.segment_size_bytes * (part.end - part.start) // (segment.end_offset + 1 - segment.start_offset)


def _tier_ranges(context: PlanContext, draft: _Draft, limits: SplitLimits) -> list[TierRange]:
    if context.objects is None or not draft.parts:
        return []
    committed = context.options.read_committed

    def aborted_in(part: TierPart, start: int, end: int) -> AbortedSpans | None:
        if not committed:
            return None
        place = part.segment.topic_id_partition.topic_partition
        return draft.aborted[place].within(start, end)

    return tier_ranges(
        draft.parts,
        context.objects,
        target_bytes=target_bytes(sum(map(_size_bytes, draft.parts)), limits),
        max_records=limits.max_records,
        aborted_in=aborted_in,
    )


def _log_plan(plan: ReadPlan) -> None:
    report = plan.report
    logger.info(
        "%d splits: %d segments with %d bytes, %d ranges from brokers, %d segments pruned",
        len(plan.splits),
        report.segments,
        report.bytes,
        report.broker_ranges,
        report.pruned,
    )
    for reason in report.ignored:
        logger.warning("ignored in the tier: %s", reason)
