"""`crabka replay`: a range of a topic's tier, or of a table, to another topic, exactly once."""

from __future__ import annotations

from typing import Annotated

import typer

from crabka.cli.lake.options import Catalog, Format, Master, TopicPlace
from crabka.cli.node.serve import read_properties
from crabka.cli.option_groups import with_option_groups
from crabka.cli.options import AsJson
from crabka.cli.output import print_rows
from crabka.errors import ConfigError
from crabka.records.compression import CODEC_NAMES

COLUMNS = ("partition", "records", "next_offset")


@with_option_groups
def replay(
    topic: Annotated[str, typer.Argument(help="The source topic, or its table with --table.", show_default=False)],
    *,
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="The target topic.", show_default=False)],
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the replay; the same name continues where it ended.", show_default=False),
    ] = None,
    origin: TopicPlace,
    target_bootstrap: Annotated[
        str | None,
        typer.Option(
            "--target-bootstrap",
            metavar="HOST:PORT",
            help="Brokers of the target, if it is another cluster.",
            show_default=False,
        ),
    ] = None,
    target_config: Annotated[
        str | None,
        typer.Option("--target-config", metavar="FILE", help="Client properties of the target.", show_default=False),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="URL", help="Place of tables with raw values.", show_default=False),
    ] = None,
    table_format: Format = "delta",
    catalog: Catalog = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="RECORDS", min=0.001, help="Limit in records per second.", show_default=False),
    ] = None,
    by_key: Annotated[bool, typer.Option("--by-key", help="Choose partitions by key instead of keeping them.")] = False,
    codec: Annotated[str, typer.Option("--codec", help=f"Codec of the batches: {', '.join(CODEC_NAMES)}.")] = "none",
    transaction_size: Annotated[
        int, typer.Option("--transaction-size", metavar="RECORDS", min=1, help="Records of one transaction.")
    ] = 5_000,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Write records to a topic with their keys, headers and timestamps, each exactly once over all runs."""
    from crabka.spark.jobs.replay import replay_topic
    from crabka.spark.jobs.replay_tables import replay_lake_table
    from crabka.spark.jobs.replay_writer import ReplayTarget
    from crabka.spark.session.job_session import job_session

    if codec not in CODEC_NAMES:
        raise ConfigError(f"--codec {codec}: not one of {', '.join(CODEC_NAMES)}")
    client_file = target_config if target_bootstrap is not None else origin.command_config
    target = ReplayTarget(
        bootstrap=target_bootstrap or origin.bootstrap,
        topic=to,
        name=name or f"replay-{topic}-to-{to}",
        client=read_properties(client_file) if client_file else {},
        keep_partitions=not by_key,
        records_per_second=rate,
        transaction_records=transaction_size,
        codec=CODEC_NAMES.index(codec),
    )
    if table is not None and (origin.tier is not None or origin.option):
        raise ConfigError("--table excludes --tier and --option")
    with job_session("crabka replay", master) as spark:
        if table is not None:
            done = replay_lake_table(spark, _table_address(table, topic), table_format, target, catalog=catalog)
        else:
            source = origin.source_options() | {"subscribe": topic}
            done = replay_topic(spark, source, target)
    rows = [{"partition": each.partition, "records": each.records, "next_offset": each.next_offset} for each in done]
    print_rows(COLUMNS, rows, as_json=as_json)


def _table_address(tables: str, name: str) -> str:
    place, question, parameters = tables.partition("?")
    return f"{place.rstrip('/')}/{name}{question}{parameters}"
