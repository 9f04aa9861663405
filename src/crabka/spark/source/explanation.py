"""What a read would touch, for people: Spark's own `explain` cannot show it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from crabka.errors import ConfigError
from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import ReadPlan
from crabka.spark.source.option_names import STRATEGIES
from crabka.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def explain(what: DataFrame | Mapping[str, str]) -> None:
    """Plan a batch read and print its segments, bytes and splits, and what the option `where` made superfluous.

    Takes a DataFrame, or the options of a read. Raises what planning raises.
    """
    plan = plan_read(SourceOptions.parse(_options_of(what), streaming=False))
    sys.stdout.write(f"{describe_plan(plan)}\n")


def only_read(reads: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Return the options of the only read of ours. Raises ConfigError if there is not just one."""
    found = [options for options in reads if any(name.lower() in options for name in STRATEGIES)]
    if len(found) != 1:
        raise ConfigError(f"the DataFrame reads the source {len(found)} times; only one read can be explained")
    return found[0]


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


def _options_of(what: DataFrame | Mapping[str, str]) -> Mapping[str, str]:
    if isinstance(what, Mapping):
        return what
    if hasattr(what, "_jdf"):
        from crabka.spark.source.frame_plan import reads_of_frame

        return only_read(reads_of_frame(what))
    from crabka.spark.source.connect_plan import reads_of_connect_frame

    return only_read(reads_of_connect_frame(what))


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
