"""`crabka quorum`: show the metadata quorum and change its voters (KIP-853), as kafka-metadata-quorum does.

`repair` works on the directory of a stopped node, without a cluster.
"""

from __future__ import annotations

import time
from typing import Annotated
from uuid import UUID

import typer

from crabka.cli.node.process import load_config
from crabka.cli.node.serve import read_properties
from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, BootstrapController, CommandConfig, Execute
from crabka.cli.output import Column, Row, print_done, print_json, print_rows
from crabka.cli.session import with_admin
from crabka.cli.units import format_duration
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.cluster_types import DescribedQuorum, QuorumReplica
from crabka.config.listeners import controller_endpoints
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.formats.meta_properties import MetaProperties
from crabka.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from crabka.log.dirs.log_dir import LogDir
from crabka.quorum.formatting import is_formatted
from crabka.quorum.healing.repair import ACCEPT_CLUSTER_ID, ACCEPT_LOSS, plan_repair
from crabka.quorum.log.voters import VoterEndpoint
from crabka.quorum.storage import read_meta_properties
from crabka.runtime import real_runtime

app = typer.Typer(help="The metadata quorum: describe, add and remove voters, repair.", no_args_is_help=False)

STATUS_COLUMNS = ("cluster", "leader", "epoch", "high_watermark", "max_lag", Column("max_lag_ms", "lag time"))
NODE_COLUMNS = ("node", "directory", Column("endpoints", yields=1), "status")
REPAIR_COLUMNS = ("problem", "action", "outcome")
REPLICATION_COLUMNS = (
    "node",
    Column("directory", yields=1),
    "log_end",
    "lag",
    "last_fetch",
    Column("last_caught_up", "caught up"),
    "status",
)


@app.command()
def describe(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    replication: Annotated[
        bool, typer.Option("--replication", help="Show the progress of each copy of the metadata log.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the leader of the quorum, its voters and its observers."""

    async def ask(admin: Admin) -> tuple[str, DescribedQuorum]:
        return (await admin.cluster.describe()).cluster_id, await admin.cluster.describe_quorum()

    cluster_id, quorum = with_admin(bootstrap, ask, controllers=bootstrap_controller, command_config=command_config)
    nodes = replica_rows(quorum, now_ms=time.time_ns() // 1_000_000)
    if replication:
        print_rows(REPLICATION_COLUMNS, nodes, as_json=as_json)
        return
    status = {"cluster": cluster_id, **status_row(quorum)}
    if as_json:
        print_json({**status, "nodes": nodes})
        return
    print_rows(STATUS_COLUMNS, [status], as_json=False)
    print()
    print_rows(NODE_COLUMNS, nodes, as_json=False)


@app.command()
def add(
    *,
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Properties file of the new controller.", show_default=False)
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    as_json: AsJson = False,
) -> None:
    """Make a running controller a voter. It was formatted with --no-initial-controllers and has caught up."""
    server = load_config(read_properties(config))
    identity, directory = _identity(server)
    endpoints = [VoterEndpoint(each.name, each.host, each.port) for each in controller_endpoints(server)]

    async def run(admin: Admin) -> None:
        await admin.cluster.add_raft_voter(server.node_id, directory, endpoints, cluster_id=identity.cluster_id)

    with_admin(bootstrap, run, controllers=bootstrap_controller, command_config=command_config)
    shown = [f"{each.name}://{each.host}:{each.port}" for each in endpoints]
    result = {"node": server.node_id, "directory": uuid_to_text(directory), "endpoints": shown}
    print_done(
        f"controller {server.node_id} with directory {uuid_to_text(directory)} is a voter now",
        as_json=as_json,
        result=result,
    )


@app.command()
def remove(
    *,
    controller_id: Annotated[
        int, typer.Option("--controller-id", "-i", min=0, help="Id of the voter.", show_default=False)
    ],
    directory_id: Annotated[
        str,
        typer.Option(
            "--directory-id",
            "--controller-directory-id",
            "-d",
            help="Directory id, as printed by `describe`.",
            show_default=False,
        ),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    as_json: AsJson = False,
) -> None:
    """Remove a voter from the quorum. Both ids must match, so that no other voter is removed."""
    try:
        directory = uuid_from_text(directory_id)
    except ValueError as error:
        raise ConfigError(f"--directory-id: {error}") from error
    with_admin(
        bootstrap,
        lambda admin: admin.cluster.remove_raft_voter(controller_id, directory),
        controllers=bootstrap_controller,
        command_config=command_config,
    )
    result = {"node": controller_id, "directory": directory_id}
    message = f"controller {controller_id} with directory {directory_id} is no longer a voter"
    print_done(message, as_json=as_json, result=result)


@app.command()
def repair(
    *,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="Properties file of the node.", show_default=False)
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            "--data-dir", metavar="DIR", help="Metadata directory of the node, as given to `up`.", show_default=False
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option(ACCEPT_LOSS, help="Accept the loss of durable metadata, if no other voter has it."),
    ] = False,
    accept_cluster_id: Annotated[
        bool, typer.Option(ACCEPT_CLUSTER_ID, help="Assign the metadata to the cluster of meta.properties.")
    ] = False,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Repair the metadata directory of a stopped node that cannot start or cannot vote."""
    if (config is None) == (data_dir is None):
        raise ConfigError("name the directory: either --config FILE or --data-dir DIR")
    directory = data_dir if config is None else load_config(read_properties(config)).metadata_log_dir
    accepted = {name for name, given in ((ACCEPT_LOSS, accept_loss), (ACCEPT_CLUSTER_ID, accept_cluster_id)) if given}
    rows = repair_directory(str(directory), accepted, execute=execute)
    if rows or as_json:
        print_rows(REPAIR_COLUMNS, rows, as_json=as_json)
    else:
        print(f"the quorum's files are intact in {directory}")


def repair_directory(directory: str, accepted: set[str], *, execute: bool) -> list[Row]:
    """Plan a repair and carry out what is accepted; return a row for each step. Raises ConfigError if a node runs."""
    runtime = real_runtime()
    if not runtime.fs.exists(directory):
        raise ConfigError(f"{directory} does not exist")
    lock = LogDir(runtime.fs, directory)
    try:
        lock.open()
        rows: list[Row] = []
        for step in plan_repair(runtime.fs, directory):
            outcome = "planned: run with --execute" if step.is_allowed(accepted) else f"not done: needs {step.option}"
            if execute and step.is_allowed(accepted):
                step.run()
                outcome = "done"
            rows.append({"problem": step.problem, "action": step.action, "outcome": outcome})
        return rows
    finally:
        lock.close()
        runtime.threads.close()


def status_row(quorum: DescribedQuorum) -> Row:
    """Return the leader and the lag of the quorum: the largest of its voters."""
    leader, last = quorum.leader, min(quorum.voters, key=lambda voter: voter.log_end_offset, default=None)
    lag = lag_ms = None
    if leader is not None and last is not None:
        lag = max(0, leader.log_end_offset - last.log_end_offset)
        lag_ms = 0 if lag == 0 else _later(leader.last_caught_up_ms, last.last_caught_up_ms)
    return {
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "max_lag": lag,
        "max_lag_ms": lag_ms,
    }


def replica_rows(quorum: DescribedQuorum, *, now_ms: int) -> list[Row]:
    """Return a row for each copy of the metadata log, the leader first."""
    voters = sorted(quorum.voters, key=lambda each: (each.node_id != quorum.leader_id, each.node_id))
    rows = [_replica(quorum, each, "leader" if each.node_id == quorum.leader_id else "follower") for each in voters]
    rows += [_replica(quorum, each, "observer") for each in quorum.observers]
    return [
        {
            **row,
            "last_fetch": _ago(row["last_fetch_ms"], now_ms),
            "last_caught_up": _ago(row["last_caught_up_ms"], now_ms),
        }
        for row in rows
    ]


def _replica(quorum: DescribedQuorum, replica: QuorumReplica, status: str) -> Row:
    endpoints = [f"{each.name}://{each.host}:{each.port}" for each in quorum.nodes.get(replica.node_id, ())]
    leader = quorum.leader
    return {
        "node": replica.node_id,
        "directory": None if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id),
        "endpoints": endpoints,
        "log_end": replica.log_end_offset,
        "lag": None if leader is None else max(0, leader.log_end_offset - replica.log_end_offset),
        "last_fetch_ms": replica.last_fetch_ms,
        "last_caught_up_ms": replica.last_caught_up_ms,
        "status": status,
    }


def _later(moment_ms: int, before_ms: int) -> int | None:
    return None if moment_ms < 0 or before_ms < 0 else max(0, moment_ms - before_ms)


def _ago(moment_ms: int, now_ms: int) -> str | None:
    return None if moment_ms < 0 else f"{format_duration(max(0, now_ms - moment_ms))} ago"


def _identity(server: ServerConfig) -> tuple[MetaProperties, UUID]:
    """Read the identity of a controller from its metadata directory. Raises ConfigError."""
    if not server.is_controller:
        raise ConfigError("process.roles of this node has no controller")
    runtime = real_runtime()
    try:
        if not is_formatted(runtime.fs, server.metadata_log_dir):
            raise ConfigError(f"{server.metadata_log_dir} is not formatted: run `crabka format` for this node first")
        identity = read_meta_properties(runtime.fs, server.metadata_log_dir)
    finally:
        runtime.threads.close()
    if identity.node_id != server.node_id:
        raise ConfigError(f"{server.metadata_log_dir} belongs to node {identity.node_id}, not to {server.node_id}")
    if identity.directory_id is None:
        raise ConfigError(f"{server.metadata_log_dir} has no directory id: it was formatted by an old release")
    return identity, identity.directory_id
