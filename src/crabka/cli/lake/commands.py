"""`crabka lake`: topics as tables for queries. Needs the `spark` extra.

`sync` runs on Spark, here or on a cluster; the others need no Spark. Python code can call all of them, see
`crabka.spark.lake`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from crabka.cli.extras import needs_extra
from crabka.cli.lake.options import (
    DEFAULT_GRACE,
    DEFAULT_INTERVAL,
    DEFAULT_ROUND,
    DEFAULT_TARGET,
    Grace,
    IntervalMs,
    Master,
    PartitionBy,
    Pattern,
    RoundBytes,
    Schema,
    ShortGrace,
    TableName,
    TablePlace,
    Tables,
    TargetBytes,
    TopicPlace,
    Topics,
    ValueMode,
    check_grace,
    read_schema,
)
from crabka.cli.option_groups import with_option_groups
from crabka.cli.options import AsJson, Execute
from crabka.cli.output import Column, print_json, print_plan_note, print_rows
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from crabka.spark.lake.formats.table import TableFormat
    from crabka.spark.lake.formats.tables import Lake

app = typer.Typer(
    help="Topics as Delta, Iceberg or Parquet tables: sync, status, rewind, compact, vacuum.", no_args_is_help=False
)

SUMMARY_COLUMNS = (
    "topic",
    "table",
    "rows",
    "dead_rows",
    "files",
    "size_bytes",
    Column("rounds", yields=1),
    Column("lost_rounds", yields=2),
)
STATUS_COLUMNS = ("table", "partition", "committed", "end", "lag")
TABLE_COLUMNS = ("table", Column("topic", yields=1), "rows", "dead_rows", "files", "size_bytes", "lag", "age_ms")
REWIND_COLUMNS = ("table", "partition", "position", "rewound_to", "differs_from", "log_start")
COMMIT_COLUMNS = ("table", "version", "timestamp_ms", "operation")


@app.command()
@with_option_groups
def sync(
    topics: Topics = None,
    *,
    place: TablePlace,
    pattern: Pattern = None,
    table: TableName = None,
    value: ValueMode = "raw",
    schema: Schema = None,
    partition_by: PartitionBy = None,
    target_size: TargetBytes = DEFAULT_TARGET,
    round_size: RoundBytes = DEFAULT_ROUND,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until interrupted.")] = False,
    interval: IntervalMs = DEFAULT_INTERVAL,
    master: Master = None,
    origin: TopicPlace,
    as_json: AsJson = False,
) -> None:
    """Copy topics to tables exactly once; each run continues where the last one ended."""
    with needs_extra("crabka lake"):
        from crabka.cli.lake.progress import LakeProgress, follow_until_interrupted
        from crabka.spark.lake.errors import TopicsFailedError
        from crabka.spark.lake.syncing.planner_source import PlannerSource
        from crabka.spark.lake.syncing.settings import SyncSettings
        from crabka.spark.lake.syncing.spark_runner import SparkRunner
        from crabka.spark.lake.syncing.sync_job import LakeSync, SyncRequest
        from crabka.spark.lake.values.given_schemas import decoder_of
        from crabka.spark.session.job_session import job_session

        given_schema = read_schema(schema)
        if value != "json":
            # A wrong value is reported before Spark starts; a schema of JSON is read with Spark.
            decoder_of(value, given_schema)
        lake = place.open()
        source = PlannerSource(origin.source_options())
        failure: TopicsFailedError | None = None
        with job_session("crabka lake sync", master) as session, LakeProgress() as progress:
            runner = SparkRunner(session, progress.did_tasks)
            settings = SyncSettings(
                decoder=decoder_of(value, given_schema),
                partition_by=partition_by,
                target_bytes=target_size,
                round_bytes=round_size,
                min_tasks=runner.parallelism,
            )
            request = SyncRequest(topics=tuple(topics or ()), pattern=pattern, table_name=table, settings=settings)
            job = LakeSync(lake, source, runner, request, listener=progress)
            try:
                if follow:
                    follow_until_interrupted(job, interval / 1000)
                else:
                    job.run_once()
            except TopicsFailedError as error:
                failure = error
        print_rows(SUMMARY_COLUMNS, [asdict(summary) for summary in job.summaries], as_json=as_json)
        if failure is not None:
            raise failure


@app.command()
@with_option_groups
def status(
    tables: Tables,
    *,
    place: TablePlace,
    offline: Annotated[bool, typer.Option("--offline", help="Use the tables alone, not the cluster.")] = False,
    origin: TopicPlace,
    as_json: AsJson = False,
) -> None:
    """Show the lag of tables, their age, their files and their last commits."""
    with needs_extra("crabka lake"):
        from crabka.spark.lake.maintenance.status import table_status
        from crabka.spark.lake.syncing.planner_source import PlannerSource

        lake = place.open()
        source = None if offline else PlannerSource(origin.source_options())
        found = [table_status(lake, name, source, lake.now_ms()) for name in tables]
        rows = [asdict(each) | {"lag": each.lag} for each in found]
        if as_json:
            print_json(rows)
            return
        print_rows(TABLE_COLUMNS, rows, as_json=False)
        print()
        print_rows(
            STATUS_COLUMNS,
            [{"table": row["table"]} | partition for row in rows for partition in row["partitions"]],
            as_json=False,
        )
        print()
        print_rows(
            COMMIT_COLUMNS,
            [{"table": row["table"]} | commit for row in rows for commit in row["commits"]],
            as_json=False,
        )


@app.command()
@with_option_groups
def rewind(
    tables: Tables,
    *,
    place: TablePlace,
    origin: TopicPlace,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Remove rows that the topic no longer has because its log was truncated; the next sync continues there."""
    with needs_extra("crabka lake"):
        from crabka.spark.lake.maintenance.rewinding import plan_rewind, rewind_table
        from crabka.spark.lake.syncing.planner_source import PlannerSource

        lake = place.open()
        source = PlannerSource(origin.source_options())
        rewind_one = rewind_table if execute else plan_rewind
        rows = [asdict(each) for name in tables for each in rewind_one(lake, name, source)]
        print_rows(REWIND_COLUMNS, rows, as_json=as_json)
        if rows:
            print_plan_note(execute=execute, done=f"{len(rows)} partitions are read again", as_json=as_json)


@app.command()
@with_option_groups
def compact(
    tables: Tables,
    *,
    place: TablePlace,
    target_size: TargetBytes = DEFAULT_TARGET,
    as_json: AsJson = False,
) -> None:
    """Merge small files of tables. Syncs and readers may run at the same time."""
    with needs_extra("crabka lake"):
        from crabka.spark.lake.maintenance.compaction import compact_once

        lake = place.open()
        rows = []
        for name, table in _existing(lake, tables):
            result = compact_once(table, target_size)
            rows.append({"table": name, "files_removed": result.files_removed, "files_added": result.files_added})
        print_rows(("table", "files_removed", "files_added"), rows, as_json=as_json)


@app.command()
@with_option_groups
def vacuum(
    tables: Tables,
    *,
    place: TablePlace,
    grace: Grace = DEFAULT_GRACE,
    allow_short_grace: ShortGrace = False,
    as_json: AsJson = False,
) -> None:
    """Drop old versions of tables and delete unused files that are older than the grace period."""
    with needs_extra("crabka lake"):
        check_grace(grace, allow_short=allow_short_grace)
        lake = place.open()
        rows = []
        for name, table in _existing(lake, tables):
            result = table.vacuum(grace, lake.now_ms())
            rows.append({"table": name, "files_removed": len(result.removed), "size_bytes": result.size_bytes})
        print_rows(("table", "files_removed", "size_bytes"), rows, as_json=as_json)


def _existing(lake: Lake, names: list[str]) -> Iterator[tuple[str, TableFormat]]:
    for name in names:
        table = lake.open(name)
        if table is None:
            raise ConfigError(f"There is no {lake.table_format} table {name} at {lake.root}")
        yield name, table
