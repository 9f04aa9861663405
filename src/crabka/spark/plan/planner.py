"""Plans: which task reads which bytes of the tier and which offsets from brokers.

Spark asks for one plan of a frame, at its first action. Conditions only make it smaller: rows that do not pass may
remain.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.errors import DataLossError, SegmentVanishedError
from crabka.spark.plan.collection_pause import collection_paused
from crabka.spark.plan.context import PlanContext, is_tier_only, open_context
from crabka.spark.plan.divergence import LogCutError, ReadPosition
from crabka.spark.plan.drafting import make_plan
from crabka.spark.plan.filters import NO_FILTERS, row_bounds
from crabka.spark.plan.histories import find_divergences
from crabka.spark.plan.latest import survey_reaching
from crabka.spark.plan.losses import lose
from crabka.spark.plan.ranges import ReadPlan
from crabka.spark.plan.resolve import Offsets, is_resolved_late, resolve_end, resolve_start
from crabka.spark.plan.survey import PartitionSurvey, Survey, make_survey
from crabka.spark.plan.witnesses import Chain
from crabka.spark.source.options import SourceOptions

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_PLAN_TRIES: Final = 3
_PLAN_PAUSE_S: Final = 0.2


def plan_read(options: SourceOptions) -> ReadPlan:
    """Return the plan of a batch query. Raises ConfigError, DataLossError and what stores and brokers raise."""
    filters = row_bounds(options.where)

    def plan(context: PlanContext) -> ReadPlan:
        survey = make_survey(context)
        starts = resolve_start(context, survey, options.starting)
        ends = resolve_end(context, survey, options.ending)
        limits = options.starting, options.ending
        open_ended = {p for p in starts if any(is_resolved_late(limit, p) for limit in limits)}
        return make_plan(context, survey, _checked(context, survey, starts, ends, open_ended), filters)

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
        _check_partitions(options, survey, starts, wanted)
        there = {partition: end for partition, end in wanted.items() if partition in survey.partitions}
        begin = {partition: starts.get(partition, survey.partitions[partition].earliest) for partition in there}
        cut_off = _report_cut_off(context, survey, {p: each for p, each in positions.items() if p in there})
        return make_plan(context, survey, _checked(context, survey, begin, there, cut_off), NO_FILTERS)

    with open_context(options) as context, collection_paused():
        return _again_if_vanished(lambda: plan(context))


def survey_topics(options: SourceOptions) -> Survey:
    """Return what there is of the topics that the options choose, without a plan for reading it."""
    with open_context(options) as context, collection_paused():
        return _again_if_vanished(lambda: make_survey(context))


def _check_partitions(
    options: SourceOptions,
    survey: Survey,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Report what came and went since the offsets were taken, as Spark's own source does."""
    gone = ends.keys() - survey.partitions.keys()
    if options.streaming:
        gone |= starts.keys() - ends.keys()
    for partition in sorted(gone):
        lose(options, DataLossError(f"{partition} does not exist any more"))
    for partition in sorted(ends.keys() - starts.keys() - gone) if options.streaming else ():
        earliest = survey.partitions[partition].earliest
        if earliest > 0:
            lose(
                options,
                DataLossError(f"offsets 0 to {earliest - 1} of {partition}, which is new to the query, are gone"),
            )


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
            _log.info("planning again: %s", error)
            time.sleep(_PLAN_PAUSE_S)
    return plan()


def _checked(
    context: PlanContext, survey: Survey, starts: Offsets, ends: Offsets, open_ended: Collection[TopicPartition] = ()
) -> dict[TopicPartition, range]:
    """Return the offsets to read. Raises ConfigError for an end before its start, DataLossError for what is gone.

    As in Spark's source a range without offsets is content wherever it lies, and in `open_ended` partitions, where
    earliest or latest decides about one side, an end before the start is such a range.
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
    """Return what there is of a range. Raises DataLossError."""
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
