"""How far partitions reach now: for streaming queries before every batch, without a look at segments."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from crabka.ids import TopicPartition
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import PlanContext, is_tier_only, open_context
from crabka.spark.plan.resolve import resolve_start
from crabka.spark.plan.survey import Survey, make_survey

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The first offset of each partition, and the offset after its last one."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """Where a query begins, and the partitions that have nothing to read yet."""

    offsets: Mapping[TopicPartition, int]
    at_end: frozenset[TopicPartition]


def start_offsets(options: SourceOptions) -> StartOffsets:
    """Return where a new query begins. Raises ConfigError."""
    with open_context(options, with_tier=is_tier_only(options)) as context:
        survey = make_survey(context)
        starts = resolve_start(context, survey, options.starting)
    at_end = frozenset(p for p, start in starts.items() if start >= survey.partitions[p].latest)
    return StartOffsets(starts, at_end)


def ask_bounds(options: SourceOptions, known: Mapping[TopicPartition, int]) -> OffsetBounds:
    """Return how far partitions reach.

    What is read from the tier alone never ends before an offset that is `known`: a query that read from brokers as well
    may be ahead of the tier, and waits for it.
    """
    tier_only = is_tier_only(options)
    with open_context(options, with_tier=tier_only) as context:
        survey = make_survey(context) if tier_only else survey_reaching(context, known)
    latest = {partition: each.latest for partition, each in survey.partitions.items()}
    if tier_only:
        latest = {partition: max(end, known.get(partition, end)) for partition, end in latest.items()}
    return OffsetBounds({partition: each.earliest for partition, each in survey.partitions.items()}, latest)


def survey_reaching(
    context: PlanContext, known: Mapping[TopicPartition, int], only: Collection[TopicPartition] | None = None
) -> Survey:
    """Return a survey whose partitions reach as far as offsets that are known already.

    An end before one of these may be that of a leader that has not caught up: it is asked for again a few times before
    it counts.
    """
    options = context.options
    survey = make_survey(context, only)
    for _ in range(options.offset_tries - 1):
        short = [p for p, each in survey.partitions.items() if each.latest < known.get(p, 0)]
        if not short:
            break
        logger.warning("%s ends before an offset that was read already", short[0])
        time.sleep(options.offset_retry_interval_ms / 1000)
        survey = make_survey(context, only)
    return survey
