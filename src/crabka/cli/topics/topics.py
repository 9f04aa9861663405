"""`crabka topics`: list, create, describe, delete, and add partitions."""

from __future__ import annotations

from typing import Annotated

import typer

from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, CommandConfig, Execute, Settings, settings_of
from crabka.cli.output import Column, Row, print_done, print_plan_note, print_rows
from crabka.cli.session import with_admin
from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.cluster.metadata import TopicMetadata
from crabka.ids import uuid_to_text

app = typer.Typer(help="Topics: list, create, describe, delete.", no_args_is_help=False)

LIST_COLUMNS = ("topic", "partitions", "replicas", Column("id", yields=1))

Names = Annotated[list[str], typer.Argument(help="Names of topics.", metavar="TOPIC...", show_default=False)]


@app.command("list")
def list_(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    internal: Annotated[bool, typer.Option("--internal", help="Include the internal topics of Kafka.")] = False,
    as_json: AsJson = False,
) -> None:
    """List topics."""
    found = with_admin(bootstrap, lambda admin: admin.list_topics(), command_config=command_config)
    rows = [_summary(found[name]) for name in sorted(found) if internal or not found[name].is_internal]
    print_rows(LIST_COLUMNS, rows, as_json=as_json)


@app.command()
def create(
    names: Names,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", "-p", help="Number of partitions; default is that of the broker.", show_default=False
        ),
    ] = -1,
    replicas: Annotated[
        int,
        typer.Option(
            "--replicas", "-r", help="Replicas of each partition; default is that of the broker.", show_default=False
        ),
    ] = -1,
    config: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    wanted = [NewTopic(name, partitions, replicas, settings_of(config)) for name in names]
    created = with_admin(bootstrap, lambda admin: admin.create_topics(wanted), command_config=command_config)
    result = [
        {"topic": topic.name, "partitions": topic.partition_count, "id": uuid_to_text(topic.topic_id)}
        for topic in created
    ]
    print_done(f"created {', '.join(names)}", as_json=as_json, result=result)


@app.command()
def describe(
    names: Names,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the partitions of topics with leaders and replicas."""
    found = with_admin(bootstrap, lambda admin: admin.describe_topics(names), command_config=command_config)
    rows = [row for name in names for row in _partitions(found[name])]
    columns = ("topic", "partition", "leader", Column("epoch", yields=1), "replicas", "isr", "offline")
    print_rows(columns, rows, as_json=as_json)


@app.command()
def delete(
    names: Names,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records."""
    if execute:
        with_admin(bootstrap, lambda admin: admin.delete_topics(names), command_config=command_config)
        print_done(f"deleted {', '.join(names)}", as_json=as_json, result=names)
        return
    found = with_admin(bootstrap, lambda admin: admin.describe_topics(names), command_config=command_config)
    print_rows(LIST_COLUMNS, [_summary(found[name]) for name in names], as_json=as_json)
    print_plan_note(execute=False, done="", as_json=as_json)


@app.command()
def alter(
    name: Annotated[str, typer.Argument(help="Name of the topic.", metavar="TOPIC", show_default=False)],
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="New number of partitions.", show_default=False)
    ],
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Increase the number of partitions of a topic."""
    with_admin(bootstrap, lambda admin: admin.create_partitions({name: partitions}), command_config=command_config)
    result = {"topic": name, "partitions": partitions}
    print_done(f"{name} has {partitions} partitions now", as_json=as_json, result=result)


def _summary(topic: TopicMetadata) -> Row:
    replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replicas": replicas,
        "id": uuid_to_text(topic.topic_id),
        "internal": topic.is_internal,
    }


def _partitions(topic: TopicMetadata) -> list[Row]:
    return [
        {
            "topic": topic.name,
            "partition": partition.partition,
            "leader": partition.leader if partition.leader >= 0 else None,
            "epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "offline": list(partition.offline_replicas),
        }
        for _, partition in sorted(topic.partitions.items())
    ]
