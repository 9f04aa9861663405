"""What a read would touch, as text: Spark's own `explain` cannot show it.

The options come from the plan of the DataFrame: Spark's own of a classic session, the client's of Spark Connect.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import ConfigError
from crabka.spark.options.names import STRATEGIES
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import ReadPlan

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from pyspark.sql import DataFrame


_RELATION: Final = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


def explain(what: DataFrame | Mapping[str, str]) -> None:
    """Plan a batch read and print its segments, bytes and splits, and what the option `where` made superfluous.

    Takes a DataFrame, or the options of a read. Raises what planning raises.
    """
    plan = plan_read(SourceOptions.parse(_options_of(what), streaming=False))
    sys.stdout.write(f"{describe_plan(plan)}\n")


def only_read(reads: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Return the options of the only read of this source. Raises ConfigError unless there is exactly one."""
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
        from crabka.spark.source.explanation import reads_of_frame

        return only_read(reads_of_frame(what))
    from crabka.spark.source.explanation import reads_of_connect_frame

    return only_read(reads_of_connect_frame(what))


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def reads_of_frame(frame: DataFrame) -> list[dict[str, str]]:
    """Return the options of every read in a frame, their names in lower case."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [_options(leaves.apply(index)) for index in range(leaves.size())]


def _options(leaf: Any) -> dict[str, str]:
    if leaf.getClass().getName() != _RELATION:
        return {}
    return {str(name).lower(): str(value) for name, value in leaf.options().asCaseSensitiveMap().items()}


def reads_of_connect_frame(frame: DataFrame) -> list[dict[str, str]]:
    """Return the options of every read in a frame, their names in lower case."""
    connect: Any = frame
    plan: Message = connect._plan.to_proto(connect.sparkSession.client)
    sources: list[Any] = [
        each for each in _messages(plan) if each.DESCRIPTOR.full_name == "spark.connect.Read.DataSource"
    ]
    return [{name.lower(): value for name, value in source.options.items()} for source in sources]


def _messages(message: Message) -> Iterator[Message]:
    """Yield a message and all that are in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else [value]:
            yield from _messages(each)
