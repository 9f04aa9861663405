"""`crabka groups reset`: move the committed offsets of a group. Prints the plan; --execute carries it out."""

from __future__ import annotations

import sys
from typing import Annotated, NamedTuple

import typer

from crabka.cli.groups.errors import explained
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
from crabka.cli.output import Row, print_json, print_plan_note, print_rows
from crabka.cli.session import with_admin
from crabka.cli.topics.offsets import expand, parse_moment
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.group_types import GroupOffset
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.errors import ConfigError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode

_GOALS = "--to-earliest, --to-latest, --to-timestamp, --to-offset or --shift"


class ResetGoal(NamedTuple):
    """The target: exactly one field is set. The timestamp may be EARLIEST or LATEST."""

    timestamp: int | None = None
    offset: int | None = None
    shift: int | None = None


class PlannedOffset(NamedTuple):
    """The plan for one partition; `wanted` lies outside of the log if it is not `new`."""

    partition: TopicPartition
    committed: int | None
    wanted: int
    new: int
    log_end: int


def reset(
    group: GroupName,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    topic: TopicPlaces = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All topics with committed offsets.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the start of the log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_timestamp: Annotated[
        str | None, typer.Option("--to-timestamp", metavar="TIME", help="ISO time or milliseconds since 1970.")
    ] = None,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="To an offset.")] = None,
    shift: Annotated[
        int | None, typer.Option("--shift", help="Forward by a number of records; backward if negative.")
    ] = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Move the committed offsets of a group that has no members."""
    goal = _goal(to_earliest=to_earliest, to_latest=to_latest, to_timestamp=to_timestamp, offset=to_offset, shift=shift)
    if bool(topic) == all_topics:
        raise ConfigError("name topics: either --topic TOPIC[:PARTITION,…] or --all-topics")
    places = split_places(topic or ())

    async def run(admin: Admin) -> list[PlannedOffset]:
        if not await _exists_free(admin, group) and not execute:
            print(f"group {group} does not exist yet; --execute creates it", file=sys.stderr)
        plan = await plan_reset(admin, group, places if topic else None, goal)
        if execute:
            await admin.groups.alter_offsets(group, {each.partition: each.new for each in plan})
        return plan

    with explained(group):
        plan = with_admin(bootstrap, run, command_config=command_config)
    _print_plan(group, plan, execute=execute, as_json=as_json)


def _goal(
    *, to_earliest: bool, to_latest: bool, to_timestamp: str | None, offset: int | None, shift: int | None
) -> ResetGoal:
    goals = [
        *([ResetGoal(timestamp=EARLIEST)] if to_earliest else []),
        *([ResetGoal(timestamp=LATEST)] if to_latest else []),
        *([ResetGoal(timestamp=parse_moment(to_timestamp))] if to_timestamp is not None else []),
        *([ResetGoal(offset=offset)] if offset is not None else []),
        *([ResetGoal(shift=shift)] if shift is not None else []),
    ]
    if len(goals) != 1:
        raise ConfigError(f"name the target: one of {_GOALS}")
    return goals[0]


async def _exists_free(admin: Admin, group: str) -> bool:
    """Return whether the group exists. Raises OperationError if it has members."""
    try:
        found = await admin.groups.describe(group)
    except OperationError as error:
        if error.error_code is not ErrorCode.group_id_not_found:
            raise
        return False
    if found.members:
        clients = ", ".join(sorted({member.client_id for member in found.members}))
        raise OperationError(
            ErrorCode.rebalance_in_progress,
            f"group {group} is {found.state}, its members ({clients}) would commit over a "
            "reset; stop its consumers, or wait for their session timeout, and try again",
        )
    return True


async def plan_reset(admin: Admin, group: str, places: list[str] | None, goal: ResetGoal) -> list[PlannedOffset]:
    """Return the plan of a reset; without places for all committed offsets of the group."""
    committed = await admin.groups.list_offsets(group)
    if places is None:
        existing = await admin.list_topics()
        partitions = [each for each in committed if each.topic in existing]
        if not partitions:
            raise ConfigError(f"group {group} has no committed offsets for topics that exist; name topics with --topic")
    else:
        partitions = await expand(admin, places)
    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    wanted = dict.fromkeys(partitions, goal.offset or 0)
    if goal.timestamp is not None:
        found = await admin.list_offsets(dict.fromkeys(partitions, goal.timestamp))
        # No record is that new: the end of the log is where such records will be.
        wanted = {each: found[each].offset if found[each].offset >= 0 else ends[each].offset for each in partitions}
    elif goal.shift is not None:
        wanted = {each: _committed(committed, each) + goal.shift for each in partitions}
    return [
        PlannedOffset(
            each,
            committed[each].offset if each in committed else None,
            wanted[each],
            min(max(wanted[each], starts[each].offset), ends[each].offset),
            ends[each].offset,
        )
        for each in partitions
    ]


def _committed(committed: dict[TopicPartition, GroupOffset], partition: TopicPartition) -> int:
    if partition not in committed:
        raise ConfigError(f"--shift: no offset is committed for {partition}; use another of {_GOALS}")
    return committed[partition].offset


def _print_plan(group: str, plan: list[PlannedOffset], *, execute: bool, as_json: bool) -> None:
    rows = [_row(each) for each in plan]
    if as_json:
        print_json({"group": group, "executed": execute, "partitions": rows})
        return
    print_rows(("topic", "partition", "committed", "new", "log_end", "lag", "note"), rows, as_json=False)
    print_plan_note(execute=execute, done=f"group {group}: {len(rows)} offsets are committed", as_json=as_json)


def _row(each: PlannedOffset) -> Row:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "committed": each.committed,
        "new": each.new,
        "log_end": each.log_end,
        "lag": each.log_end - each.new,
        "note": "" if each.wanted == each.new else f"{each.wanted} is outside of the log",
    }
