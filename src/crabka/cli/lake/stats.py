"""`crabka stats`: the content of a tier, per topic and day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crabka.cli.lake.options import Master, TopicPlace, Topics
from crabka.cli.option_groups import with_option_groups
from crabka.cli.options import AsJson
from crabka.cli.output import Column, Kind, Row, print_rows
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from crabka.spark.jobs.stats import TopicDay

COLUMNS = (
    "topic",
    "day",
    "records",
    Column("bytes", kind=Kind.SIZE),
    Column("stored", kind=Kind.SIZE),
    "keys",
    Column("codecs", yields=1),
    Column("lag_mean_ms", "mean lag", yields=2),
    Column("lag_max_ms", "max lag"),
)


@with_option_groups
def stats(
    topics: Topics = None,
    *,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="All topics whose names match.", show_default=False)
    ] = None,
    origin: TopicPlace,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE.png", help="Also draw a chart.", show_default=False)
    ] = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Count records, bytes, keys, codecs and the lag from event to tier."""
    from crabka.spark.jobs.stats import tier_stats
    from crabka.spark.jobs.stats_plot import plot_stats
    from crabka.spark.session.job_session import job_session

    if bool(topics) == (pattern is not None):
        raise ConfigError("name topics, or a --pattern of their names")
    chosen = {"subscribePattern": pattern} if pattern is not None else {"subscribe": ",".join(topics or ())}
    source = origin.source_options() | chosen
    with job_session("crabka stats", master) as spark:
        days = tier_stats(spark, source)
    if plot is not None:
        plot_stats(days, plot)
    print_rows(COLUMNS, [_row(day) for day in days], as_json=as_json)


def _row(day: TopicDay) -> Row:
    return {
        "topic": day.topic,
        "day": "unknown" if day.day is None else day.day.isoformat(),
        "records": day.records,
        "bytes": day.record_bytes,
        "stored": day.stored_bytes,
        "keys": day.keys,
        "codecs": [f"{name}={count}" for name, count in sorted(day.codecs.items())],
        "lag_mean_ms": round(day.lag_mean_ms),
        "lag_max_ms": day.lag_max_ms,
    }
