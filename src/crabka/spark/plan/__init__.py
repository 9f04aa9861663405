"""From options to splits: what the tier and brokers have, which copy counts, and which task reads which bytes.

Reading order:

- `planner` is the entry: offsets of a query become ranges of the tier and of brokers, and a `ReadPlan`.
- `context` holds the connections of one plan; `survey` says which partitions there are and how far they reach.
- `resolve` turns limits (earliest, latest, times) into offsets and checks them; `latest` is for streaming queries.
- `catalog` has the segments of the tier, and reads their indexes.
- `pruning` leaves out what `where` excludes, by `append_time` too; `transactions` finds aborted ones.
- `splits` cuts parts of segments into byte ranges and packs them; `ranges` has the values that go to tasks.
- `history` verifies that a log still has what was read of it.

Invariants:

- Of every offset exactly one copy is read, and each offset of a plan is in exactly one range.
- What is lost is an error, or a warning with `failOnDataLoss=false`; it is never left out silently.
- A plan that meets a deleted segment is made again; a task plans the rest of its range again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.plan.planner import plan_offsets, plan_read
    from crabka.spark.plan.pruning import NO_FILTERS, RowBounds
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
        "planner": ["plan_offsets", "plan_read"],
        "pruning": ["NO_FILTERS", "RowBounds"],
        "ranges": ["BrokerRange", "PlanReport", "ReadPlan", "Split", "TierRange"],
    },
)
