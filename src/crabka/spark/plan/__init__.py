"""From options to splits: what there is in the tier and at brokers, which copy counts, and who reads which bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.plan.filters import NO_FILTERS, RowBounds
    from crabka.spark.plan.planner import plan_offsets, plan_read
    from crabka.spark.plan.ranges import BrokerRange, PlanReport, ReadPlan, Split, TierRange

__all__ = [
    "NO_FILTERS",
    "BrokerRange",
    "PlanReport",
    "ReadPlan",
    "RowBounds",
    "Split",
    "TierRange",
    "plan_offsets",
    "plan_read",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "filters": ["NO_FILTERS", "RowBounds"],
        "planner": ["plan_offsets", "plan_read"],
        "ranges": ["BrokerRange", "PlanReport", "ReadPlan", "Split", "TierRange"],
    },
)
