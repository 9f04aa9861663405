"""`crabka transactions`: open transactions of all coordinators, and the end of those that are stuck (KIP-664)."""

from __future__ import annotations

from typing import Annotated

import typer

from crabka.cli.options import (
    DEFAULT_BOOTSTRAP,
    DURATION,
    AsJson,
    Bootstrap,
    CommandConfig,
    Execute,
    as_duration_ms,
    parse_partition,
)
from crabka.cli.output import Column, Row, print_plan_note, print_rows
from crabka.cli.session import with_cluster
from crabka.cli.transactions.hanging import OpenInPartition, find_hanging
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ActiveProducer
from crabka.clients.admin.transactions import TransactionDescription
from crabka.clients.cluster.cluster import Cluster
from crabka.errors import ConfigError
from crabka.ids import TopicPartition

app = typer.Typer(help="Transactions: list, abort.", no_args_is_help=True)

LIST_COLUMNS = (
    "transactional_id",
    "state",
    Column("producer", yields=2),
    Column("coordinator", yields=1),
    "age_ms",
    "timeout_ms",
    Column("partitions", yields=3),
)
HANGING_COLUMNS = ("topic", "partition", "start_offset", "producer", Column("epoch", yields=1), "age_ms")
# States in which a transaction holds partitions.
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@app.command("list")
def list_(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Show ids without an open transaction, too.")] = False,
    hanging: Annotated[
        bool, typer.Option("--hanging", help="Show transactions that no coordinator knows, which never end.")
    ] = False,
    max_timeout: Annotated[
        int,
        typer.Option(
            "--max-timeout", parser=as_duration_ms, metavar=DURATION, help="transaction.max.timeout.ms of the brokers."
        ),
    ] = "15m",  # type: ignore[assignment]  # typer parses the default
    as_json: AsJson = False,
) -> None:
    """List open transactions with their age and their timeout."""
    if hanging:

        async def find(cluster: Cluster) -> list[Row]:
            found = await find_hanging(cluster, await _all_partitions(Admin(cluster)), max_timeout)
            now_ms = cluster.runtime.clock.now_ms()
            return [_hanging_row(each, now_ms) for each in found]

        print_rows(HANGING_COLUMNS, with_cluster(bootstrap, find, command_config=command_config), as_json=as_json)
        return

    async def ask(cluster: Cluster) -> list[Row]:
        admin = Admin(cluster)
        listed = await admin.transactions.list(states=() if all_ else OPEN_STATES)
        described = await admin.transactions.describe(each.transactional_id for each in listed)
        now_ms = cluster.runtime.clock.now_ms()
        return [_row(each, now_ms) for each in described.values()]

    print_rows(LIST_COLUMNS, with_cluster(bootstrap, ask, command_config=command_config), as_json=as_json)


@app.command()
def abort(
    transactional_id: Annotated[
        str | None,
        typer.Argument(help="Abort the open transaction of this id.", metavar="[ID]", show_default=False),
    ] = None,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            "-p",
            metavar="TOPIC:PARTITION",
            help="Abort a hanging transaction here …",
            show_default=False,
        ),
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="… that begins at this offset.", show_default=False)
    ] = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Abort a transaction: by its id, which fences its producer, or a hanging one by its place in a partition."""
    if (transactional_id is None) == (partition is None) or (partition is None) != (start_offset is None):
        raise ConfigError("name the transaction: either ID, or --partition TOPIC:PARTITION with --start-offset N")

    async def run(cluster: Cluster) -> Row:
        if transactional_id is not None:
            return await _abort_by_id(cluster, transactional_id, execute=execute)
        return await _abort_by_place(cluster, str(partition), start_offset or 0, execute=execute)

    row = with_cluster(bootstrap, run, command_config=command_config)
    columns = LIST_COLUMNS if transactional_id is not None else HANGING_COLUMNS
    print_rows(columns, [row], as_json=as_json)
    print_plan_note(execute=execute, done="the transaction is aborted", as_json=as_json)


async def _abort_by_id(cluster: Cluster, transactional_id: str, *, execute: bool) -> Row:
    admin = Admin(cluster)
    found = (await admin.transactions.describe([transactional_id])).get(transactional_id)
    if found is None:
        raise ConfigError(f"no coordinator knows the transactional id {transactional_id}")
    if found.state not in OPEN_STATES:
        raise ConfigError(f"{transactional_id} has no open transaction: its state is {found.state}")
    if execute:
        await admin.transactions.terminate(transactional_id)
    return _row(found, cluster.runtime.clock.now_ms())


async def _abort_by_place(cluster: Cluster, place: str, start_offset: int, *, execute: bool) -> Row:
    topic, index = parse_partition(place)
    if index is None:
        raise ConfigError(f"--partition {place}: not of the form TOPIC:PARTITION")
    partition, admin = TopicPartition(topic, index), Admin(cluster)
    producers = (await admin.describe_producers([partition]))[partition]
    matching = [each for each in producers if each.current_transaction_start_offset == start_offset]
    if not matching:
        raise ConfigError(f"{partition} has no open transaction that begins at offset {start_offset}")
    found = OpenInPartition(partition, matching[0])
    await _refuse_known(admin, found)
    if execute:
        await admin.transactions.abort_hanging(partition, found.producer)
    return _hanging_row(found, cluster.runtime.clock.now_ms())


async def _refuse_known(admin: Admin, found: OpenInPartition) -> None:
    """Refuse to go past a coordinator that has this transaction: it would commit or abort it a second time."""
    listed = await admin.transactions.list(producer_ids=[found.producer.producer_id])
    described = await admin.transactions.describe(each.transactional_id for each in listed)
    for each in described.values():
        if found.partition in each.partitions and each.producer_id == found.producer.producer_id:
            raise ConfigError(
                f"the transaction is not hanging, its coordinator knows it as {each.transactional_id} ({each.state}): "
                f"`crabka transactions abort {each.transactional_id}` ends it"
            )


async def _all_partitions(admin: Admin) -> list[TopicPartition]:
    topics = await admin.list_topics()
    return [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]


def _row(found: TransactionDescription, now_ms: int) -> Row:
    is_open = found.state in OPEN_STATES and found.start_timestamp_ms > 0
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "coordinator": found.coordinator_id,
        "age_ms": max(0, now_ms - found.start_timestamp_ms) if is_open else None,
        "timeout_ms": found.timeout_ms,
        "partitions": [f"{each.topic}:{each.partition}" for each in found.partitions],
    }


def _hanging_row(found: OpenInPartition, now_ms: int) -> Row:
    producer: ActiveProducer = found.producer
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "start_offset": producer.current_transaction_start_offset,
        "producer": producer.producer_id,
        "epoch": producer.producer_epoch,
        "age_ms": max(0, now_ms - producer.last_timestamp),
    }
