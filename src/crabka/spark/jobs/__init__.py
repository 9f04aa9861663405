"""Jobs on a tier and its tables: each a function that a program calls and a command that an operator runs.

- `audit` checks a tier, with `scrub_tasks` in Spark tasks.
- `replay` writes a topic, or rows of a DataFrame, back to a topic; `replay_tables` does so with a table of `lake sync`.
  `replay_writer` is the transactional producer of one partition, `pace` its rate.
- `stats` counts records, bytes and keys per day, with `batch_facts` in Spark tasks; `stats_plot` draws them.
- `recover` reads from a bucket what a new cluster needs to serve its topics.
- `export` writes the metadata of a tier to a file, for reads without brokers.

Jobs collect rows by `row_tasks.collect_rows`, which fails if Java dies in between, and report errors as one sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.jobs.audit import AuditOptions, audit_tier
    from crabka.spark.jobs.recover import plan_recovery
    from crabka.spark.jobs.replay import ReplayedPartition, replay_table, replay_topic
    from crabka.spark.jobs.replay_tables import replay_lake_table
    from crabka.spark.jobs.replay_writer import ReplayTarget, SourceIdentity
    from crabka.spark.jobs.stats import TopicDay, tier_stats
    from crabka.spark.jobs.stats_plot import plot_stats

__all__ = [
    "AuditOptions",
    "ReplayTarget",
    "ReplayedPartition",
    "SourceIdentity",
    "TopicDay",
    "audit_tier",
    "plan_recovery",
    "plot_stats",
    "replay_lake_table",
    "replay_table",
    "replay_topic",
    "tier_stats",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "audit": ["AuditOptions", "audit_tier"],
        "recover": ["plan_recovery"],
        "replay": ["ReplayedPartition", "replay_table", "replay_topic"],
        "replay_tables": ["replay_lake_table"],
        "replay_writer": ["ReplayTarget", "SourceIdentity"],
        "stats": ["TopicDay", "tier_stats"],
        "stats_plot": ["plot_stats"],
    },
)
