"""What a read would touch, for people: Spark's own `explain` cannot show it."""

from __future__ import annotations

from collections.abc import Mapping

from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import ReadPlan
from crabka.spark.source.options import SourceOptions


def explain(options: Mapping[str, str]) -> str:
    """Plan a batch read with these options and return its segments, bytes, splits and what was pruned.

    Raises what planning raises.
    """
    return describe_plan(plan_read(SourceOptions.parse(options, streaming=False)))


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
