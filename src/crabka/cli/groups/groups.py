"""`crabka groups`: list, describe, delete, and the offsets that groups have committed."""

from __future__ import annotations

from typing import Annotated

import typer

from crabka.cli.groups.errors import explained
from crabka.cli.groups.reset import reset
from crabka.cli.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    Execute,
    GroupName,
    TopicPlaces,
    split_places,
)
from crabka.cli.output import Column, Row, print_done, print_json, print_plan_note, print_rows
from crabka.cli.session import with_admin
from crabka.cli.topics.offsets import expand
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.group_types import GroupDescription, GroupListing, GroupMember, GroupOffset
from crabka.clients.fetcher.offsets import LATEST
from crabka.errors import ConfigError, OperationError
from crabka.ids import TopicPartition

app = typer.Typer(help="Groups of consumers: list, describe, reset, delete.", no_args_is_help=False)
app.command("reset")(reset)

GROUP_COLUMNS = ("group", "type", "state", Column("assignor", yields=1), "coordinator", "members", "lag")
PARTITION_COLUMNS = ("topic", "partition", "committed", "log_end", "lag", "owner", Column("host", yields=1))
DELETION_COLUMNS = ("group", "type", "state", "members", "offsets")
MEMBER_COLUMNS = ("member", "instance", "client", "host", "assignment")


@app.command("list")
def list_(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in a state: Stable, Empty, …", show_default=False)
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only groups of a type: classic, consumer, …", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List groups."""
    found = with_admin(
        bootstrap, lambda admin: admin.groups.list(states=state or (), types=type_ or ()), command_config=command_config
    )
    print_rows(("group", "type", "state", "protocol"), [_summary(group) for group in found], as_json=as_json)


@app.command()
def describe(
    group: GroupName,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a group, its offsets and lag, and its members."""

    async def ask(admin: Admin) -> tuple[GroupDescription, list[Row]]:
        found = await admin.groups.describe(group)
        return found, await lag_rows(admin, found)

    with explained(group):
        found, partitions = with_admin(bootstrap, ask, command_config=command_config)
    members = [_member(member) for member in found.members]
    head = _head(found, partitions)
    if as_json:
        epochs = {"epoch": found.epoch, "assignment_epoch": found.assignment_epoch}
        print_json({**head, **epochs, "members": members, "partitions": partitions})
        return
    print_rows(GROUP_COLUMNS, [{**head, "members": len(members)}], as_json=False)
    print()
    print_rows(PARTITION_COLUMNS, partitions, as_json=False)
    print()
    print_rows(MEMBER_COLUMNS, members, as_json=False)


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(help="Names of groups.", metavar="GROUP...", show_default=False)],
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Delete groups without members, with their offsets. A group that cannot be deleted does not stop the others."""

    if not execute:
        rows = with_admin(bootstrap, lambda admin: _deletions(admin, groups), command_config=command_config)
        print_rows(DELETION_COLUMNS, rows, as_json=as_json)
        print_plan_note(execute=False, done="", as_json=as_json)
        return

    async def run(admin: Admin) -> None:
        failure: OperationError | None = None
        for group in groups:
            try:
                with explained(group):
                    await admin.groups.delete(group)
            except OperationError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    with_admin(bootstrap, run, command_config=command_config)
    print_done(f"deleted {', '.join(groups)}", as_json=as_json, result=groups)


@app.command("delete-offsets")
def delete_offsets(
    group: GroupName,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    topic: TopicPlaces = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Delete the offsets of a group for topics that it does not read now."""
    if not topic:
        raise ConfigError("name topics: --topic TOPIC[:PARTITION,…]")
    places = split_places(topic)

    async def plan(admin: Admin) -> list[Row]:
        partitions = await expand(admin, places)
        committed = await admin.groups.list_offsets(group)
        return [
            {"topic": each.topic, "partition": each.partition, "committed": committed[each].offset}
            for each in partitions
            if each in committed
        ]

    async def run(admin: Admin) -> list[TopicPartition]:
        partitions = await expand(admin, places)
        await admin.groups.delete_offsets(group, partitions)
        return partitions

    if not execute:
        with explained(group):
            rows = with_admin(bootstrap, plan, command_config=command_config)
        print_rows(("topic", "partition", "committed"), rows, as_json=as_json)
        print_plan_note(execute=False, done="", as_json=as_json)
        return
    with explained(group):
        deleted = with_admin(bootstrap, run, command_config=command_config)
    result = [{"topic": each.topic, "partition": each.partition} for each in deleted]
    text = ", ".join(str(each) for each in deleted)
    print_done(f"group {group} has no offsets for {text} now", as_json=as_json, result=result)


async def _deletions(admin: Admin, groups: list[str]) -> list[Row]:
    """Return a row for each group, with the number of partitions that it has committed offsets of."""
    rows: list[Row] = []
    for group in groups:
        with explained(group):
            found = await admin.groups.describe(group)
            committed = await admin.groups.list_offsets(group)
        row = {"group": group, "type": found.type, "state": found.state, "members": len(found.members)}
        rows.append({**row, "offsets": len(committed)})
    return rows


async def lag_rows(admin: Admin, group: GroupDescription) -> list[Row]:
    """Return a row for each partition that the group has committed for or that a member owns.

    Unknown values are None: the committed offset before the first commit, the end of a log without a leader.
    """
    committed = await admin.groups.list_offsets(group.group_id)
    owners = {partition: member for member in group.members for partition in member.assignment or ()}
    partitions = sorted({*committed, *owners})
    topics = await admin.list_topics() if partitions else {}
    led = {
        TopicPartition(topic.name, index)
        for topic in topics.values()
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    }
    ends = await admin.list_offsets({each: LATEST for each in partitions if each in led})
    return [
        _lag(each, committed.get(each), ends[each].offset if each in ends else None, owners.get(each))
        for each in partitions
    ]


def _lag(
    partition: TopicPartition, committed: GroupOffset | None, log_end: int | None, owner: GroupMember | None
) -> Row:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed": None if committed is None else committed.offset,
        "log_end": log_end,
        "lag": None if committed is None or log_end is None else max(0, log_end - committed.offset),
        "owner": None if owner is None else owner.client_id,
        "host": None if owner is None else owner.client_host,
        "member": None if owner is None else owner.member_id,
        "metadata": None if committed is None else committed.metadata,
    }


def _head(group: GroupDescription, partitions: list[Row]) -> Row:
    known = [row["lag"] for row in partitions if row["lag"] is not None]
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator_id,
        "lag": sum(known) if known else None,
    }


def _summary(group: GroupListing) -> Row:
    return {"group": group.group_id, "type": group.type, "state": group.state, "protocol": group.protocol_type}


def _member(member: GroupMember) -> Row:
    target = None if member.target_assignment is None else _texts(member.target_assignment)
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "assignment": None if member.assignment is None else _texts(member.assignment),
        "target": target,
        "epoch": member.epoch,
    }


def _texts(partitions: tuple[TopicPartition, ...]) -> list[str]:
    """Return partitions as they are given on the command line."""
    return [f"{each.topic}:{each.partition}" for each in partitions]
