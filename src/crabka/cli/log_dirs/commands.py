"""`crabka log-dirs`: the content of log dirs, moves between them, cordons, and plans that balance them."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import Annotated, Final

import typer

from crabka.cli.log_dirs.balance import DEFAULT_TOLERANCE, PlannedMove, plan_balance
from crabka.cli.log_dirs.check import (
    DAMAGE_COLUMNS,
    PROBLEM_COLUMNS,
    STATE_COLUMNS,
    damage_rows,
    directory_problems,
    fetch_metrics,
    parse_samples,
    state_row,
)
from crabka.cli.log_dirs.progress import SentReplica, wait_until_arrived
from crabka.cli.log_dirs.view import (
    DIR_COLUMNS,
    MOVE_COLUMNS,
    BrokerDirs,
    dir_rows,
    move_rates,
    move_rows,
    running_moves,
)
from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, CommandConfig, Execute
from crabka.cli.output import Row, print_done, print_json, print_plan_note, print_rows
from crabka.cli.session import with_admin
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigChange, ConfigOwner, ResourceType
from crabka.errors import ConfigError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.vfs import OsFileSystem

app = typer.Typer(help="Log dirs of brokers: list, move, check, cordon, balance.", no_args_is_help=True)

PLAN_COLUMNS: Final = ("broker", "topic", "partition", "from", "to", "size_bytes")
SCRUB_NOW: Final = "crabka.log.scrub.now"
HTTP_LISTENER: Final = "crabka.http.listener"
CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
# Between two looks at the moves in progress, to compute their speed.
RATE_SECONDS: Final = 1.0

BrokerOption = Annotated[
    int | None, typer.Option("--broker", help="Id of the broker; needed if several match.", show_default=False)
]
BrokersOption = Annotated[
    list[int] | None, typer.Option("--broker", help="Id of a broker; may be repeated.", show_default=False)
]
DirArgument = Annotated[
    str, typer.Argument(help="Path of the log dir, as in `log.dirs`.", metavar="DIR", show_default=False)
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end and show the progress.")]


@app.command("list")
def list_(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    broker: BrokersOption = None,
    as_json: AsJson = False,
) -> None:
    """List log dirs with their content, their free space and the moves in progress."""

    async def run(admin: Admin) -> tuple[list[Row], list[Row]]:
        dirs = await _describe(admin, broker)
        moves, rates = running_moves(dirs), {}
        if moves:
            began = time.monotonic()
            await asyncio.sleep(RATE_SECONDS)
            dirs = await _describe(admin, broker)
            before, moves = moves, running_moves(dirs)
            rates = move_rates(before, moves, time.monotonic() - began)
        return dir_rows(dirs), move_rows(moves, rates)

    dirs, moves = with_admin(bootstrap, run, command_config=command_config)
    if as_json:
        print_json({"dirs": [dict(row) for row in dirs], "moves": [dict(row) for row in moves]})
    else:
        print_rows(DIR_COLUMNS, dirs, as_json=False)
        if moves:
            print()
            print_rows(MOVE_COLUMNS, moves, as_json=False)


@app.command()
def move(
    replica: Annotated[
        str, typer.Argument(help="A partition, such as `orders-0`.", metavar="TOPIC-PARTITION", show_default=False)
    ],
    *,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="The log dir to move to.", show_default=False)],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    broker: BrokerOption = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Move a replica to another log dir of its broker. Its current dir as the target cancels a move in progress."""
    partition = parse_replica(replica)

    async def run(admin: Admin) -> int:
        node_id = await _broker_of(admin, partition) if broker is None else broker
        try:
            await admin.log_dirs.move_replicas(node_id, {partition: to})
        except OperationError as error:
            if error.error_code is ErrorCode.replica_not_available:
                raise OperationError(
                    error.error_code,
                    f"broker {node_id} has no replica of {partition}; a new one will be placed in {to}",
                ) from error
            raise
        if wait:
            await wait_until_arrived(admin, [SentReplica(node_id, partition, to)])
        return node_id

    node_id = with_admin(bootstrap, run, command_config=command_config)
    done = "lies in" if wait else "is on its way to"
    result = {"broker": node_id, "topic": partition.topic, "partition": partition.partition, "to": to, "done": wait}
    print_done(f"{partition} {done} {to} of broker {node_id}", as_json=as_json, result=result)


@app.command()
def cordon(
    directory: DirArgument,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    broker: BrokerOption = None,
    as_json: AsJson = False,
) -> None:
    """Stop new replicas in a log dir; existing ones stay and are served."""
    node_id, result = with_admin(
        bootstrap, partial(_set_cordon, directory, broker, is_cordoned=True), command_config=command_config
    )
    print_done(f"{directory} of broker {node_id} takes no new replicas", as_json=as_json, result=result)


@app.command()
def uncordon(
    directory: DirArgument,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    broker: BrokerOption = None,
    as_json: AsJson = False,
) -> None:
    """Allow new replicas in a log dir again."""
    node_id, result = with_admin(
        bootstrap, partial(_set_cordon, directory, broker, is_cordoned=False), command_config=command_config
    )
    print_done(f"{directory} of broker {node_id} takes new replicas", as_json=as_json, result=result)


@app.command()
def check(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    broker: BrokersOption = None,
    now: Annotated[bool, typer.Option("--now", help="Start a check of all logs now.")] = False,
    directory: Annotated[
        list[str] | None,
        typer.Option("--dir", help="Read this log dir directly; its node may run or not.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show damage in the logs and the progress of their check. Exit code 1 if there is damage."""
    if directory:
        problems = [row for each in directory for row in directory_problems(OsFileSystem(), each.rstrip("/"))]
        if problems or as_json:
            print_rows(PROBLEM_COLUMNS, problems, as_json=as_json)
        else:
            print("no damage was found")
        raise typer.Exit(1 if problems else 0)

    async def run(admin: Admin) -> dict[int, str | None]:
        nodes = broker or [node.node_id for node in (await admin.cluster.describe()).brokers]
        if now:
            for node in nodes:
                change = ConfigChange(SCRUB_NOW, str(time.time_ns()))
                await admin.alter_configs(ConfigOwner(ResourceType.BROKER, str(node)), [change])
        return {node: await _side_port(admin, node) for node in nodes}

    addresses = with_admin(bootstrap, run, command_config=command_config)
    samples = {node: list(parse_samples(fetch_metrics(each))) for node, each in addresses.items() if each is not None}
    states = [state_row(node, found) for node, found in sorted(samples.items())]
    damaged = [row for node, found in sorted(samples.items()) for row in damage_rows(node, found)]
    if as_json:
        print_json({"brokers": states, "damaged": damaged, "triggered": now})
    else:
        print_rows(STATE_COLUMNS, states, as_json=False)
        if damaged:
            print()
            print_rows(DAMAGE_COLUMNS, damaged, as_json=False)
    silent = ", ".join(str(node) for node, each in sorted(addresses.items()) if each is None)
    if silent:
        print(
            f"no answer from brokers without crabka.http.listener, --dir reads their disks: {silent}", file=sys.stderr
        )
    raise typer.Exit(1 if damaged else 0)


async def _side_port(admin: Admin, node: int) -> str | None:
    """Return the address of the metrics of a broker, None if it serves none."""
    found = await admin.describe_configs(ConfigOwner(ResourceType.BROKER, str(node)), [HTTP_LISTENER])
    value = found.get(HTTP_LISTENER)
    return None if value is None else value.value or None


@app.command()
def balance(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    broker: BrokersOption = None,
    tolerance: Annotated[
        float, typer.Option(help="Share of the average by which dirs may differ.", min=0.0, max=1.0)
    ] = DEFAULT_TOLERANCE,
    drain: Annotated[bool, typer.Option("--drain", help="Empty cordoned dirs, too.")] = False,
    execute: Execute = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Plan moves that balance the log dirs of each broker; with --execute start them."""
    if wait and not execute:
        raise ConfigError("--wait needs --execute")

    async def run(admin: Admin) -> dict[int, list[PlannedMove]]:
        dirs = await _describe(admin, broker)
        plans = {node: plan_balance(found, tolerance=tolerance, drain=drain) for node, found in dirs.items()}
        plans = {node: plan for node, plan in plans.items() if plan}
        if execute:
            await _execute(admin, plans, wait=wait)
        return plans

    plans = with_admin(bootstrap, run, command_config=command_config)
    rows = [_plan_row(node, move) for node, plan in sorted(plans.items()) for move in plan]
    if not rows and not as_json:
        print("the log dirs are balanced")
        return
    print_rows(PLAN_COLUMNS, rows, as_json=as_json)
    done = f"{len(rows)} moves are {'done' if wait else 'on their way'}"
    print_plan_note(execute=execute, done=done, as_json=as_json)


async def _execute(admin: Admin, plans: dict[int, list[PlannedMove]], *, wait: bool) -> None:
    for node, plan in plans.items():
        await admin.log_dirs.move_replicas(node, {move.partition: move.target for move in plan})
    if wait:
        sent = [SentReplica(node, move.partition, move.target) for node, plan in plans.items() for move in plan]
        await wait_until_arrived(admin, sent)


def parse_replica(text: str) -> TopicPartition:
    """Return the partition of `topic-0` or `topic:0`. Raises ConfigError."""
    topic, _, index = text.rpartition(":" if ":" in text else "-")
    if not topic or not index.isdecimal():
        raise ConfigError(f"{text}: not of the form TOPIC-PARTITION")
    return TopicPartition(topic, int(index))


async def _describe(admin: Admin, brokers: list[int] | None) -> BrokerDirs:
    """Return the log dirs of some brokers, or of all live ones."""
    wanted = brokers
    if not wanted:
        wanted = [node.node_id for node in (await admin.cluster.describe()).brokers]
    described = await asyncio.gather(*(admin.log_dirs.describe(node, include_failed=True) for node in wanted))
    return dict(zip(wanted, described, strict=True))


async def _broker_of(admin: Admin, partition: TopicPartition) -> int:
    """Return the one broker that has a replica."""
    topic = (await admin.describe_topics([partition.topic]))[partition.topic]
    found = topic.partitions.get(partition.partition)
    if found is None:
        raise ConfigError(f"{partition.topic} has no partition {partition.partition}, it has {len(topic.partitions)}")
    if len(found.replicas) != 1:
        brokers = ", ".join(str(each) for each in found.replicas)
        raise ConfigError(f"{partition} has replicas on the brokers {brokers}: --broker must name the one that moves")
    return int(found.replicas[0])


async def _set_cordon(
    directory: str, broker: int | None, admin: Admin, *, is_cordoned: bool
) -> tuple[int, dict[str, object]]:
    """Change the setting of a broker; return its id, and that with its cordoned log dirs."""
    dirs = await _describe(admin, None if broker is None else [broker])
    owners = [node for node, found in dirs.items() if directory in {each.path for each in found}]
    if len(owners) != 1:
        nodes = ", ".join(str(node) for node in sorted(owners or dirs))
        what = "has no log dir" if not owners else "have a log dir"
        raise ConfigError(f"broker {nodes} {what} {directory}" + (": --broker must name one" if owners else ""))
    (node,) = owners
    cordoned = [each.path for each in dirs[node] if each.is_cordoned and each.path != directory]
    if is_cordoned:
        cordoned.append(directory)
    change = ConfigChange(CORDONED_LOG_DIRS, ",".join(cordoned))
    await admin.alter_configs(ConfigOwner(ResourceType.BROKER, str(node)), [change])
    return node, {"broker": node, "cordoned": cordoned}


def _plan_row(node: int, move: PlannedMove) -> Row:
    return {
        "broker": node,
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "from": move.source,
        "to": move.target,
        "size_bytes": move.size_bytes,
    }
