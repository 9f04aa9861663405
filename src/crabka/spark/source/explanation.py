"""What a read would touch, for people: Spark's own `explain` cannot show it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from crabka.spark.plan.filters import NO_FILTERS
from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import ReadPlan
from crabka.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def explain(what: DataFrame | Mapping[str, str]) -> None:
    """Plan a batch read and print its segments, bytes and splits, and what filters made superfluous.

    Takes a DataFrame, or the options of a read. Raises what planning raises.
    """
    if isinstance(what, Mapping):
        plan = plan_read(SourceOptions.parse(what, streaming=False), NO_FILTERS)
    else:
        from crabka.spark.source.frame_plan import filters_of_frame, options_of_frame

        plan = plan_read(SourceOptions.parse(options_of_frame(what), streaming=False), filters_of_frame(what))
    sys.stdout.write(f"{describe_plan(plan)}\n")


def describe_plan(plan: ReadPlan) -> str:
    """Return a plan as lines of text."""
    report = plan.report
    offsets = sum(end - start for start, end in plan.ranges.values())
    lines = [
        f"partitions  {len(plan.ranges)}, {offsets} offsets",
        f"tier        {report.segments} segments, {_size(report.bytes)}",
        f"brokers     {report.broker_ranges} ranges",
        f"pruned      {report.pruned} segments, {_size(report.pruned_bytes)}",
        f"splits      {len(plan.splits)}",
    ]
    lines += [f"ignored     {reason}" for reason in report.ignored]
    return "\n".join(lines)


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
