"""`crabka partitions`: their replicas and leaders, as kafka-reassign-partitions and kafka-leader-election do."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import typer

from crabka.cli.options import (
    DEFAULT_BOOTSTRAP,
    SIZE,
    AsJson,
    Bootstrap,
    CommandConfig,
    Execute,
    TopicPlaces,
    as_size_bytes,
    parse_ids,
    split_places,
)
from crabka.cli.output import Row, print_json, print_plan_note, print_rows
from crabka.cli.program import as_typed
from crabka.cli.session import with_admin
from crabka.cli.topics.offsets import expand
from crabka.cli.topics.reassignment_plan import Assignment, plan_as_json, plan_for_brokers, read_plan
from crabka.cli.topics.reassignment_progress import wait_until_moved
from crabka.cli.topics.reassignment_throttle import clear_throttle, set_throttle
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.cluster_types import ElectionKind, ReplicaMove
from crabka.errors import ConfigError, CrabkaError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode

app = typer.Typer(help="Partitions: move replicas, elect leaders.", no_args_is_help=False)

MOVE_COLUMNS = ("topic", "partition", "replicas", "target")
ONGOING_COLUMNS = ("topic", "partition", "replicas", "adding", "removing")


class MoveGoal(NamedTuple):
    """The goal that the options describe: a file, replicas for a topic, or brokers for topics; or none."""

    file: str | None = None
    topic: str | None = None
    partition: int | None = None
    replicas: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()

    @property
    def is_given(self) -> bool:
        """Whether any partition is named."""
        return bool(self.file or self.topic or self.topics)


@app.command()
def reassign(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: Annotated[
        str | None,
        typer.Option("--bootstrap-controller", help="HOST:PORT of controllers, for --list and --cancel."),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", help="A plan in Kafka's JSON format.", show_default=False)
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="One topic …", show_default=False)] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="… or one of its partitions …", show_default=False)
    ] = None,
    replicas: Annotated[
        str | None, typer.Option("--replicas", metavar="1,2,3", help="… to these brokers.", show_default=False)
    ] = None,
    topics: Annotated[
        str | None, typer.Option("--topics", metavar="A,B", help="Spread topics evenly …", show_default=False)
    ] = None,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="1,2,3", help="… over these brokers.", show_default=False)
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar=SIZE, parser=as_size_bytes, help="Limit per second, such as 20MB."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end, then remove the throttle.")] = False,
    execute: Execute = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan: the default.", hidden=True)] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the moves in progress.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Restore the replicas of before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move partitions to other brokers. With --wait alone, wait for the moves in progress."""
    goal = MoveGoal(
        file=file,
        topic=topic,
        partition=partition,
        replicas=_ids(replicas, "--replicas"),
        topics=() if topics is None else tuple(name.strip() for name in topics.split(",")),
        brokers=_ids(brokers, "--brokers"),
    )
    _check_goal(goal, needs_target=not (list_ or cancel))
    if list_ or cancel:
        ongoing = _ask_ongoing(
            bootstrap, goal, controllers=bootstrap_controller, command_config=command_config, cancel=cancel
        )
        _print_ongoing(ongoing, as_json=as_json)
        return
    if bootstrap_controller is not None:
        raise ConfigError("--bootstrap-controller goes with --list and --cancel only: controllers do not list topics")
    if not goal.is_given and not wait:
        raise ConfigError("name what to move: --file, --topic with --replicas, --topics with --brokers, or --list")
    if dry_run and execute:
        raise ConfigError("--dry-run and --execute exclude each other")
    current, plan = with_admin(
        bootstrap,
        lambda admin: _move(admin, goal, throttle=throttle, wait=wait, execute=execute),
        command_config=command_config,
    )
    if throttle is not None and not wait and execute:
        note = "the throttle stays until `crabka partitions reassign --wait` sees the end of the moves"
        print(as_typed(note), file=sys.stderr)
    _print_moved(current, plan, as_json=as_json)
    if goal.is_given:
        done = "all replicas have moved" if wait else f"{len(plan)} partitions are moving"
        print_plan_note(execute=execute, done=done, as_json=as_json)


@app.command("elect-leaders")
def elect_leaders(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    topic: TopicPlaces = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Allow any remaining replica to lead; records may be lost.")
    ] = False,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Make the preferred replicas lead again, of the given partitions or of all.

    It acts at once; with --unclean only with --execute.
    """
    if unclean and not execute:
        rows = with_admin(bootstrap, lambda admin: _leaderless(admin, topic), command_config=command_config)
        print_rows(("topic", "partition", "replicas", "isr"), rows, as_json=as_json)
        print_plan_note(execute=False, done="", as_json=as_json)
        return
    kind = ElectionKind.UNCLEAN if unclean else ElectionKind.PREFERRED

    async def run(admin: Admin) -> dict[TopicPartition, OperationError | None]:
        named = None if topic is None else await expand(admin, split_places(topic))
        return await admin.replicas.elect_leaders(kind, named)

    results = with_admin(bootstrap, run, command_config=command_config)
    rows = [_election_row(partition, results[partition]) for partition in sorted(results)]
    print_rows(("topic", "partition", "result"), rows, as_json=as_json)
    failed = [error for error in results.values() if error and error.error_code is not ErrorCode.election_not_needed]
    if failed:
        raise failed[0]


async def _leaderless(admin: Admin, places: list[str] | None) -> list[Row]:
    """Return a row for each partition for which an unclean election may choose a leader."""
    named = None if places is None else set(await expand(admin, split_places(places)))
    topics = await admin.list_topics()
    return [
        {"topic": name, "partition": index, "replicas": list(found.replicas), "isr": list(found.isr)}
        for name in sorted(topics)
        for index, found in sorted(topics[name].partitions.items())
        if found.leader < 0 and (named is None or TopicPartition(name, index) in named)
    ]


def _check_goal(goal: MoveGoal, *, needs_target: bool) -> None:
    if sum((goal.file is not None, goal.topic is not None, bool(goal.topics))) > 1:
        raise ConfigError("--file, --topic and --topics exclude each other")
    if goal.partition is not None and goal.topic is None:
        raise ConfigError("--partition needs --topic")
    if needs_target and bool(goal.topic) != bool(goal.replicas):
        raise ConfigError("--topic and --replicas go together")
    if needs_target and bool(goal.topics) != bool(goal.brokers):
        raise ConfigError("--topics and --brokers go together")


async def _move(
    admin: Admin, goal: MoveGoal, *, throttle: int | None, wait: bool, execute: bool
) -> tuple[Assignment, Assignment]:
    """Carry out a goal; return the replicas before and the plan. Without a goal wait for the moves in progress."""
    if not goal.is_given:
        ongoing = await admin.replicas.list_reassignments()
        current = {each: move.replicas for each, move in ongoing.items()}
        plan = {each: move.target for each, move in ongoing.items()}
        await _finish(admin, plan, throttled=None)
        return current, plan
    current, plan = await plan_moves(admin, goal)
    if not execute:
        return current, plan
    if throttle is not None:
        await set_throttle(admin, current, plan, throttle)
    await admin.replicas.reassign(plan)
    if wait:
        await _finish(admin, plan, throttled={partition.topic for partition in plan})
    return current, plan


async def plan_moves(admin: Admin, goal: MoveGoal) -> tuple[Assignment, Assignment]:
    """Return the replicas of the partitions of a goal, before and after. Raises ConfigError, OperationError."""
    if goal.file is not None:
        plan = read_plan(goal.file)
        current = await _replicas(admin, {partition.topic for partition in plan})
        missing = sorted(set(plan) - set(current))
        if missing:
            raise ConfigError(f"{goal.file}: there is no partition {missing[0]}")
        return {partition: current[partition] for partition in plan}, plan
    current = await _replicas(admin, goal.topics or [goal.topic or ""])
    if goal.topics:
        racks = {broker.node_id: broker.rack for broker in (await admin.cluster.describe()).brokers}
        absent = sorted(set(goal.brokers) - set(racks))
        if absent:
            raise ConfigError(f"broker {absent[0]} is not there: the brokers are {', '.join(map(str, sorted(racks)))}")
        return current, plan_for_brokers(current, goal.brokers, racks)
    if goal.partition is not None:
        wanted = TopicPartition(goal.topic or "", goal.partition)
        if wanted not in current:
            raise ConfigError(f"{goal.topic} has no partition {goal.partition}, it has {len(current)}")
        current = {wanted: current[wanted]}
    return current, dict.fromkeys(current, goal.replicas)


async def _replicas(admin: Admin, topics: Iterable[str]) -> Assignment:
    found = await admin.describe_topics(sorted(set(topics)))
    return {
        TopicPartition(topic.name, index): tuple(partition.replicas)
        for topic in found.values()
        for index, partition in topic.partitions.items()
    }


async def _finish(admin: Admin, plan: Assignment, *, throttled: set[str] | None) -> None:
    """Wait for a plan, remove its throttle, and check that the replicas are those of the plan."""
    await wait_until_moved(admin, plan)
    await clear_throttle(admin, throttled)
    current = await _replicas(admin, {partition.topic for partition in plan})
    for partition, replicas in plan.items():
        if current.get(partition) != replicas:
            raise CrabkaError(
                f"{partition} has replicas {current.get(partition)}, not {replicas}: another reassignment changed it"
            )


def _ask_ongoing(
    bootstrap: str, goal: MoveGoal, *, controllers: str | None, command_config: str | None, cancel: bool
) -> dict[TopicPartition, ReplicaMove]:
    async def run(admin: Admin) -> dict[TopicPartition, ReplicaMove]:
        ongoing = await admin.replicas.list_reassignments(await _named(admin, goal))
        if cancel and ongoing:
            await admin.replicas.reassign(dict.fromkeys(ongoing))
            if controllers is None:
                # Controllers do not know where topics are throttled.
                await clear_throttle(admin, {partition.topic for partition in ongoing})
        return ongoing

    return with_admin(bootstrap, run, controllers=controllers, command_config=command_config)


def _print_ongoing(ongoing: dict[TopicPartition, ReplicaMove], *, as_json: bool) -> None:
    rows = [{"topic": each.topic, "partition": each.partition, **ongoing[each]._asdict()} for each in sorted(ongoing)]
    print_rows(ONGOING_COLUMNS, rows, as_json=as_json)


async def _named(admin: Admin, goal: MoveGoal) -> set[TopicPartition] | None:
    """Return the partitions of a goal, None for all."""
    if goal.file is not None:
        return set(read_plan(goal.file))
    if goal.topic is not None and goal.partition is not None:
        return {TopicPartition(goal.topic, goal.partition)}
    return set(await _replicas(admin, goal.topics or [goal.topic or ""])) if goal.is_given else None


def _ids(text: str | None, option: str) -> tuple[int, ...]:
    return () if text is None else tuple(parse_ids(text, option))


def _print_moved(current: Assignment, plan: Assignment, *, as_json: bool) -> None:
    if as_json:
        print_json(plan_as_json(plan))
        return
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": current[partition],
            "target": plan[partition],
        }
        for partition in sorted(plan)
    ]
    print_rows(MOVE_COLUMNS, rows, as_json=False)


def _election_row(partition: TopicPartition, error: OperationError | None) -> Row:
    result = "elected" if error is None else error.error_code.name
    return {"topic": partition.topic, "partition": partition.partition, "result": result}
