"""`crabka brokers`: their addresses, whether they are fenced, and their partitions and bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import typer

from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, BootstrapController, CommandConfig
from crabka.cli.output import Column, Row, print_done, print_rows
from crabka.cli.session import with_admin
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ClusterDescription, LogDirDescription
from crabka.clients.admin.cluster_types import DescribedQuorum
from crabka.clients.cluster.metadata import TopicMetadata
from crabka.clients.errors import ClientNetworkError, VersionMismatchError
from crabka.config.listeners import format_address
from crabka.errors import ConfigError, OperationError
from crabka.metadata.features import METADATA_VERSION, METADATA_VERSION_NAMES

app = typer.Typer(help="Brokers: list, unregister.", no_args_is_help=False, invoke_without_command=True)

COLUMNS = (
    "broker",
    "address",
    Column("rack", yields=2),
    "state",
    Column("quorum", yields=1),
    "leaders",
    "replicas",
    Column("in_sync", yields=4),
    Column("size_bytes", yields=3),
    Column("version", yields=1),
    Column("roles", yields=6),
    Column("log_dirs", yields=5),
)
FENCED, CORDONED, ACTIVE = "fenced", "cordoned", "active"
BROKER, CONTROLLER = "broker", "controller"


@app.callback()
def _all(
    context: typer.Context,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Brokers: list, unregister. Without a command the same as `list`."""
    if context.invoked_subcommand is None:
        list_(bootstrap=bootstrap, command_config=command_config, as_json=as_json)


@app.command("list")
def list_(
    *, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """List the brokers of a cluster with the partitions that they lead and hold."""
    print_rows(COLUMNS, with_admin(bootstrap, broker_rows, command_config=command_config), as_json=as_json)


@app.command()
def unregister(
    broker: Annotated[int, typer.Argument(help="Id of the broker.", metavar="ID", show_default=False)],
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    force: Annotated[bool, typer.Option("--force", help="Also a broker that is active.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a broker that will not return from the cluster. A broker that is active is refused."""
    if bootstrap_controller is not None and not force:
        raise ConfigError("controllers do not say which brokers are active: ask a broker, or add --force")

    async def run(admin: Admin) -> None:
        if not force:
            refuse_active(broker, await admin.cluster.describe(include_fenced=True))
        await admin.cluster.unregister_broker(broker)

    with_admin(bootstrap, run, controllers=bootstrap_controller, command_config=command_config)
    print_done(f"broker {broker} is no longer registered", as_json=as_json, result={"broker": broker})


def refuse_active(broker: int, cluster: ClusterDescription) -> None:
    """Raise ConfigError for a broker that serves."""
    active = {node.node_id for node in cluster.brokers} - set(cluster.fenced)
    if broker not in active:
        return
    if active == {broker}:
        raise ConfigError(
            f"broker {broker} is the only active broker: without it no partition has a leader and all writes stop; "
            "add --force to unregister it anyway"
        )
    raise ConfigError(f"broker {broker} is active: stop it first, or add --force to unregister it while it serves")


async def broker_rows(admin: Admin) -> list[Row]:
    """Return a row for each registered broker; values that only a running broker knows are None."""
    cluster = await admin.cluster.describe(include_fenced=True)
    topics = (await admin.list_topics()).values()
    quorum = await _quorum(admin)
    nodes = sorted(cluster.brokers)
    running = [None if node.node_id in cluster.fenced else node.node_id for node in nodes]
    dirs = await asyncio.gather(*(_log_dirs(admin, node_id) for node_id in running))
    versions = await asyncio.gather(*(_version(admin, node_id) for node_id in running))
    carried = _carried(topics)
    return [
        {
            "broker": node.node_id,
            "address": format_address(node.host, node.port) if node.host else None,
            "rack": node.rack,
            "roles": None if quorum is None else _roles(quorum, node.node_id),
            "state": FENCED if node.node_id in cluster.fenced else _state(found),
            "quorum": None if quorum is None else _part(quorum, node.node_id),
            **{name: counts[node.node_id] for name, counts in carried.items()},
            "size_bytes": None if found is None else _size_bytes(found),
            "version": version,
            "log_dirs": None if found is None else [each.path for each in found],
        }
        for node, found, version in zip(nodes, dirs, versions, strict=True)
    ]


async def _quorum(admin: Admin) -> DescribedQuorum | None:
    try:
        return await admin.cluster.describe_quorum()
    except (VersionMismatchError, ClientNetworkError, OperationError):
        # Without a quorum, or between two of its leaders, the brokers can still be listed.
        return None


def _part(quorum: DescribedQuorum, node_id: int) -> str:
    if node_id == quorum.leader_id:
        return "leader"
    return "voter" if any(voter.node_id == node_id for voter in quorum.voters) else "observer"


def _roles(quorum: DescribedQuorum, node_id: int) -> list[str]:
    """Return the roles of a node; a controller that is no voter is not known as one."""
    return [BROKER, CONTROLLER] if any(voter.node_id == node_id for voter in quorum.voters) else [BROKER]


def _state(dirs: list[LogDirDescription] | None) -> str:
    """Return `cordoned` if the broker takes no new replica, because all its log dirs are cordoned (KIP-1066)."""
    return CORDONED if dirs and all(each.is_cordoned for each in dirs) else ACTIVE


async def _log_dirs(admin: Admin, node_id: int | None) -> list[LogDirDescription] | None:
    try:
        return None if node_id is None else await admin.log_dirs.describe(node_id)
    except (ClientNetworkError, OperationError):
        return None


async def _version(admin: Admin, node_id: int | None) -> str | None:
    """Return the newest release of Kafka whose metadata a broker reads: brokers do not report their own version."""
    try:
        features = {} if node_id is None else await admin.cluster.describe_features(node_id)
    except (ClientNetworkError, OperationError, VersionMismatchError):
        return None
    if METADATA_VERSION not in features:
        return None
    level = features[METADATA_VERSION].max_supported
    return METADATA_VERSION_NAMES.get(level, str(level)).partition("-")[0]


def _size_bytes(dirs: Iterable[LogDirDescription]) -> int:
    return sum(replica.size_bytes for directory in dirs for replica in directory.replicas.values())


def _carried(topics: Iterable[TopicMetadata]) -> dict[str, Counter[int]]:
    partitions = [partition for topic in topics for partition in topic.partitions.values()]
    return {
        "leaders": Counter(partition.leader for partition in partitions),
        "replicas": Counter(replica for partition in partitions for replica in partition.replicas),
        "in_sync": Counter(replica for partition in partitions for replica in partition.isr),
    }
