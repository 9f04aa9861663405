"""How far partitions reach now: what a streaming query asks before every batch, without looking at segments."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from crabka.ids import TopicPartition
from crabka.spark.plan.context import open_context
from crabka.spark.plan.resolve import Offsets, resolve_start
from crabka.spark.plan.survey import make_survey
from crabka.spark.source.options import SourceOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The first offset of each partition, and the offset behind its last one."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]


def start_offsets(options: SourceOptions) -> Offsets:
    """Return where a new query begins. Raises ConfigError."""
    with open_context(options, with_tier=_reach_needs_tier(options)) as context:
        return resolve_start(context, make_survey(context), options.starting)


def ask_bounds(options: SourceOptions, known: Mapping[TopicPartition, int]) -> OffsetBounds:
    """Return how far partitions reach.

    An end before an offset that is known already may be that of a leader that has not caught up: it is asked for again
    a few times before it counts.
    """
    with open_context(options, with_tier=_reach_needs_tier(options)) as context:
        for attempt in range(options.offset_tries):
            if attempt:
                time.sleep(options.offset_retry_interval_ms / 1000)
            survey = make_survey(context)
            behind = [p for p, each in survey.partitions.items() if each.latest < known.get(p, 0)]
            if not behind:
                break
            _log.warning("%s ends before an offset that was read already", behind[0])
    return OffsetBounds(
        {partition: each.earliest for partition, each in survey.partitions.items()},
        {partition: each.latest for partition, each in survey.partitions.items()},
    )


def _reach_needs_tier(options: SourceOptions) -> bool:
    """Return whether brokers alone cannot say how far partitions reach."""
    return options.bootstrap is None or options.read_mode == "tier"
