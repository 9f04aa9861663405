"""`crabka cluster`: a cluster of nodes on this machine, for experiments.

Each node is a process: one that is killed stays down until `start-node`. The demo stops all nodes of its directory
when it ends. Programs read stdout, people read stderr.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from crabka.cli.cluster.local_layout import NodeHome, find_homes, open_homes
from crabka.cli.cluster.local_processes import (
    has_said_ready,
    last_words,
    log_size,
    running_pid,
    start_process,
    stop_processes,
)
from crabka.cli.node.up import storage_settings
from crabka.cli.options import AsJson
from crabka.cli.output import Column, Row, print_rows
from crabka.cli.program import as_typed
from crabka.cli.session import with_admin, with_cluster
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ClusterDescription
from crabka.clients.errors import ClientNetworkError
from crabka.config.listeners import format_address
from crabka.errors import ConfigError, CrabkaError, OperationError

app = typer.Typer(help="A cluster on this machine: demo, status, start-node, stop.", no_args_is_help=False)

DEFAULT_DATA_DIR = "./crabka-cluster"
READY_SECONDS = 120.0
POLL_SECONDS = 0.1
ANSWER_SECONDS = 2.0
COLUMNS = ("node", "pid", "state", "broker", "address", Column("log", yields=1))

DataDir = Annotated[str, typer.Option("--data-dir", metavar="DIR", help="Directory of the nodes.")]


@app.command()
def demo(
    *,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Number of nodes; 3 in a new directory.", show_default=False)
    ] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    base_port: Annotated[
        int | None, typer.Option("--base-port", help="The first port; free ones if not given.", show_default=False)
    ] = None,
    tier: Annotated[
        str | None,
        typer.Option(
            "--tier", metavar="URL", help="Remote tier for old segments: file:///directory, s3://….", show_default=False
        ),
    ] = None,
) -> None:
    """Start a cluster and run it until Ctrl-C. An existing directory keeps its data, its ports and its tier."""
    homes = open_homes(data_dir, nodes, base_port, storage=None if tier is None else storage_settings(tier))
    for home in homes:
        if running_pid(home) is not None:
            raise ConfigError(f"node {home.node_id} runs already: `crabka cluster stop --data-dir {data_dir}` ends it")
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    processes: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for home in homes:
            processes[home.node_id] = start_process(home)
            print(f"node.{home.node_id}.pid={processes[home.node_id].pid}", flush=True)
        _tell(f"waiting for {len(homes)} nodes; their logs are {homes[0].path.parent}/node-*/node.log")
        if _wait_for_brokers(homes, end):
            print(f"bootstrap.servers={bootstrap_of(homes)}", flush=True)
            _tell(f"the cluster is ready on {bootstrap_of(homes)}; Ctrl-C stops it")
            _watch(homes, processes, end, data_dir)
    finally:
        _stop(homes)
        for process in processes.values():
            process.wait()


@app.command("start-node")
def start_node(
    node: Annotated[int, typer.Argument(help="Id of the node.", metavar="ID", show_default=False)],
    *,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Start a node that is down, and wait until it serves."""
    home = next((each for each in _homes(data_dir) if each.node_id == node), None)
    if home is None:
        raise ConfigError(f"{data_dir} has no node {node}")
    said = log_size(home)
    process = start_process(home)
    print(f"node.{node}.pid={process.pid}", flush=True)
    deadline = time.monotonic() + READY_SECONDS
    while not has_said_ready(home, said):
        if process.poll() is not None:
            _fail(home)
        if time.monotonic() > deadline:
            raise CrabkaError(f"node {node} runs but does not serve yet, see {home.log_path}")
        time.sleep(POLL_SECONDS)
    print(f"bootstrap.servers={bootstrap_of([home])}", flush=True)


@app.command()
def status(*, data_dir: DataDir = DEFAULT_DATA_DIR, as_json: AsJson = False) -> None:
    """Show which nodes run, and their state in the cluster."""
    homes = _homes(data_dir)
    pids = {home.node_id: running_pid(home) for home in homes}
    cluster = _ask_cluster([home for home in homes if pids[home.node_id] is not None])
    rows = [_status_row(home, pids[home.node_id], cluster) for home in homes]
    print_rows(COLUMNS, rows, as_json=as_json)


@app.command()
def stop(*, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Stop all nodes of a directory."""
    _stop(_homes(data_dir))


def bootstrap_of(homes: Sequence[NodeHome]) -> str:
    """Return the addresses of brokers for clients."""
    listeners = [home.config().advertised_listeners[0] for home in homes]
    return ",".join(format_address(listener.host, listener.port) for listener in listeners)


def _homes(data_dir: str) -> list[NodeHome]:
    homes = find_homes(data_dir)
    if not homes:
        raise ConfigError(f"{data_dir} holds no cluster: `crabka cluster demo` makes one")
    return homes


def _wait_for_brokers(homes: Sequence[NodeHome], end: threading.Event) -> bool:
    """Wait until all brokers are unfenced; return False if the end came first. Raises CrabkaError."""
    wanted = {home.node_id for home in homes}

    async def wait(admin: Admin) -> bool:
        deadline = time.monotonic() + READY_SECONDS
        while not end.is_set():
            _check_alive(homes)
            if wanted <= await _unfenced(admin):
                return True
            if time.monotonic() > deadline:
                raise CrabkaError(f"not all brokers serve after {READY_SECONDS:g} s, see their logs")
            await asyncio.sleep(POLL_SECONDS)
        return False

    # Nodes that have just been started answer nothing at first.
    return with_cluster(bootstrap_of(homes), lambda cluster: wait(Admin(cluster)), expects_silence=True)


async def _unfenced(admin: Admin) -> set[int]:
    """Return the brokers that serve; none while no broker can be reached."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return {broker.node_id for broker in (await admin.cluster.describe()).brokers}
    except (ClientNetworkError, OperationError, TimeoutError):
        return set()


def _check_alive(homes: Sequence[NodeHome]) -> None:
    for home in homes:
        if running_pid(home) is None:
            _fail(home)


def _watch(
    homes: Sequence[NodeHome], processes: dict[int, subprocess.Popen[bytes]], end: threading.Event, data_dir: str
) -> None:
    """Print which nodes end and come back, until the end."""
    alive = {home.node_id: True for home in homes}
    while not end.wait(POLL_SECONDS):
        for home in homes:
            processes[home.node_id].poll()
            pid = running_pid(home)
            if alive[home.node_id] != (pid is not None):
                alive[home.node_id] = pid is not None
                again = f"`crabka cluster start-node {home.node_id} --data-dir {data_dir}` starts it again"
                _tell(f"node {home.node_id} {f'is back as process {pid}' if pid else f'has ended; {again}'}")


def _stop(homes: Sequence[NodeHome]) -> None:
    if any(running_pid(home) is not None for home in homes):
        _tell("stopping")
    for home in stop_processes(homes):
        _tell(f"node {home.node_id} did not stop in time and was killed")


def _ask_cluster(running: Sequence[NodeHome]) -> ClusterDescription | None:
    try:
        return with_admin(bootstrap_of(running), lambda admin: admin.cluster.describe(include_fenced=True))
    except (ConfigError, ClientNetworkError, OperationError):
        # Nodes that cannot be reached are listed, too.
        return None


def _status_row(home: NodeHome, pid: int | None, cluster: ClusterDescription | None) -> Row:
    known = {} if cluster is None else {broker.node_id: broker for broker in cluster.brokers}
    broker = None
    if cluster is not None and home.node_id in known:
        broker = "fenced" if home.node_id in cluster.fenced else "active"
    return {
        "node": home.node_id,
        "pid": pid,
        "state": "stopped" if pid is None else "running",
        "broker": broker,
        "address": bootstrap_of([home]),
        "log": str(home.log_path),
    }


def _fail(home: NodeHome) -> NoReturn:
    raise CrabkaError(f"node {home.node_id} has ended: {last_words(home)}")


def _tell(message: str) -> None:
    print(as_typed(message), file=sys.stderr, flush=True)
