"""Options for reading a planted tier, and what a plan reads of it."""

from __future__ import annotations

from datetime import UTC, datetime

from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.ranges import ReadPlan


def options(uri: str, **more: str) -> SourceOptions:
    given = {"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing"}
    named = given | {key.replace("__", "."): value for key, value in more.items()}
    return SourceOptions.parse(named, streaming=False)


def spans(plan: ReadPlan) -> list[tuple[int, int]]:
    return [(each.start_offset, each.end_offset) for split in plan.splits for each in split.ranges]


def at(timestamp_ms: int) -> str:
    """Return a time as conditions spell it."""
    return f"'{datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat()}'"
