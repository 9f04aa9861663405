"""The directory of a local cluster: one home per node with its server.properties, its data, its log and its pid.

Ports are chosen when the directory is made and stay in the properties, so that a cluster comes back as it was.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from crabka.config.presets import HOST, NodePorts, combined_node_properties, tiered_node_properties
from crabka.config.properties import format_properties, parse_properties
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.ports import Runtime
from crabka.quorum.formatting import format_storage, is_formatted, new_cluster_id, new_directory_id
from crabka.quorum.log.voters import VoterEndpoint, VoterNode
from crabka.runtime import real_runtime

_NAME = re.compile(r"node-(\d+)\Z")
# Below the ports of outgoing connections, so that no other program takes the port of a node that is down.
_PORTS = range(20_000, 32_000)
_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class NodeHome:
    """The directory of one node of a local cluster."""

    node_id: int
    path: Path

    @property
    def properties_path(self) -> Path:
        """The properties of the node."""
        return self.path / "server.properties"

    @property
    def data_dir(self) -> Path:
        """The log dir of the node."""
        return self.path / "data"

    @property
    def log_path(self) -> Path:
        """The output of the node, appended over restarts."""
        return self.path / "node.log"

    @property
    def pid_path(self) -> Path:
        """The process id of the last start; locked by the process while it runs."""
        return self.path / "node.pid"

    def properties(self) -> dict[str, str]:
        """Read the properties without checks. Raises ConfigError."""
        try:
            return parse_properties(self.properties_path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {self.properties_path}: {error.strerror}") from error

    def config(self) -> ServerConfig:
        """Read the properties. Raises ConfigError."""
        return ServerConfig.from_properties(self.properties())[0]


def find_homes(data_dir: str) -> list[NodeHome]:
    """Return the nodes of a cluster's directory by id; none if there is no cluster in it."""
    root = Path(data_dir).resolve()
    names = [path.name for path in root.iterdir()] if root.is_dir() else []
    ids = sorted(int(match[1]) for name in names if (match := _NAME.match(name)))
    return [NodeHome(node_id, root / f"node-{node_id}") for node_id in ids]


def open_homes(
    data_dir: str,
    count: int | None,
    base_port: int | None,
    *,
    default_count: int = 3,
    storage: Mapping[str, str] | None = None,
) -> list[NodeHome]:
    """Return the nodes of a directory. A new directory is created and formatted, with a tier if one is given.

    Raises ConfigError if it holds another number of nodes, another tier, or nodes whose formatting did not finish.
    """
    homes = find_homes(data_dir)
    if not homes:
        return create_homes(data_dir, choose_ports(count or default_count, base_port), storage)
    if count is not None and count != len(homes):
        raise ConfigError(f"{data_dir} holds a cluster of {len(homes)} nodes, not of {count}")
    if storage is not None and not storage.items() <= homes[0].properties().items():
        raise ConfigError(f"{data_dir} holds a cluster without that tier: see its node-*/server.properties")
    with _borrowed_runtime() as runtime:
        unfinished = [home for home in homes if not is_formatted(runtime.fs, str(home.data_dir))]
    if unfinished:
        raise ConfigError(f"{unfinished[0].data_dir} is not formatted: remove {data_dir} and start again")
    return homes


def create_homes(data_dir: str, nodes: Sequence[NodePorts], storage: Mapping[str, str] | None = None) -> list[NodeHome]:
    """Write the properties of all nodes and format their directories as one cluster."""
    tier = {} if storage is None else tiered_node_properties(storage, node_count=len(nodes))
    root = Path(data_dir).resolve()
    homes = [NodeHome(node.node_id, root / f"node-{node.node_id}") for node in nodes]
    for node, home in zip(nodes, homes, strict=True):
        home.path.mkdir(parents=True)
        properties = combined_node_properties(node, nodes, str(home.data_dir)) | tier
        home.properties_path.write_text(format_properties(properties), encoding="utf-8")
    with _borrowed_runtime() as runtime:
        cluster_id = new_cluster_id(runtime)
        voters = [
            VoterNode(
                node.node_id, new_directory_id(runtime), (VoterEndpoint("CONTROLLER", HOST, node.controller_port),)
            )
            for node in nodes
        ]
        for home in homes:
            format_storage(runtime, home.config(), cluster_id, standalone=False, initial_controllers=voters)
    return homes


def choose_ports(count: int, base_port: int | None) -> list[NodePorts]:
    """Return two ports for each node: those from a base on, the brokers' first, or free ones. Raises ConfigError."""
    if base_port is not None:
        if not 0 < base_port <= _MAX_PORT + 1 - 2 * count:
            raise ConfigError(f"--base-port {base_port}: there must be {2 * count} ports from it on")
        ports = list(range(base_port, base_port + 2 * count))
    else:
        candidates = iter(random.sample(_PORTS, k=len(_PORTS)))
        ports = list(itertools.islice((port for port in candidates if _is_free(port)), 2 * count))
    return [NodePorts(index + 1, ports[index], ports[count + index]) for index in range(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _borrowed_runtime() -> Iterator[Runtime]:
    runtime = real_runtime()
    try:
        yield runtime
    finally:
        runtime.threads.close()
