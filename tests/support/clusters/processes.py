"""Clusters of real processes that one test can judge alike: nodes of Crabka and of Apache Kafka."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Self

from crabka.cli.cluster.local_layout import find_homes
from crabka.cli.cluster.local_processes import running_pid, stop_processes
from crabka.config.presets import NodePorts
from crabka.config.properties import format_properties, parse_properties
from tests.support.kafka.cluster import JvmQuorumNode, jvm_cluster_nodes
from tests.support.nodes.crabka_up import crabka_command
from tests.support.nodes.process import NodeProcess, accepts_connections, wait_until
from tests.support.wire.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

START_SECONDS = 120.0


class ClusterOfProcesses(ABC):
    """Nodes 1 to n, each broker and controller, in directories `node-<id>`; a context manager that runs them."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        """Prepare to run in the directory."""
        self.directory = directory
        self.node_ids = tuple(range(1, count + 1))

    def node_directory(self, node_id: int) -> Path:
        """Where a node keeps its properties and its data."""
        return self.directory / f"node-{node_id}"

    def properties(self, node_id: int) -> dict[str, str]:
        """What a node runs with."""
        return parse_properties((self.node_directory(node_id) / "server.properties").read_text())

    def meta(self, node_id: int) -> dict[str, str]:
        """Who a node was formatted to be."""
        return parse_properties((self.node_directory(node_id) / "data" / "meta.properties").read_text())

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the brokers."""
        listeners = (self.properties(node_id)["listeners"] for node_id in self.node_ids)
        return ",".join(text.partition(",")[0].removeprefix("PLAINTEXT://") for text in listeners)

    @property
    def bootstrap_controllers(self) -> str:
        """Addresses of the controllers."""
        return self.properties(self.node_ids[0])["controller.quorum.bootstrap.servers"]

    @abstractmethod
    def kill(self, node_id: int) -> None:
        """SIGKILL a node."""

    @abstractmethod
    def start_again(self, node_id: int) -> None:
        """Start a node that was killed and wait until it serves."""

    @abstractmethod
    def extra_node(self, node_id: int, role: str) -> NodeProcess:
        """A further node with one role that joins the cluster when it is started."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Start all nodes and wait until they serve."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all nodes."""

    def extra_properties(self, ports: NodePorts, role: str) -> dict[str, str]:
        """The properties of a further node."""
        listener = "PLAINTEXT" if role == "broker" else "CONTROLLER"
        address = ports.broker_address if role == "broker" else ports.controller_address
        shared = self.properties(self.node_ids[0])
        return {
            **shared,
            "process.roles": role,
            "node.id": str(ports.node_id),
            "listeners": f"{listener}://{address}",
            "log.dirs": str(self.node_directory(ports.node_id) / "data"),
        }


class JvmCluster(ClusterOfProcesses):
    """Nodes of Apache Kafka."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        """Prepare to run in the directory."""
        super().__init__(directory, count)
        self._nodes = jvm_cluster_nodes(directory, count)

    def kill(self, node_id: int) -> None:
        """SIGKILL a node."""
        self._nodes[node_id].kill()

    def start_again(self, node_id: int) -> None:
        """Start a node that was killed."""
        self._nodes[node_id].start()

    def extra_node(self, node_id: int, role: str) -> NodeProcess:
        """A further node with one role."""
        ports = NodePorts(node_id, free_port(), free_port())
        mode = ["--no-initial-controllers"] if role == "controller" else []
        return JvmQuorumNode(self.node_directory(node_id), ports, self.extra_properties(ports, role), mode)

    def __enter__(self) -> Self:
        """Start all nodes together: none serves without a majority."""
        for node in self._nodes.values():
            node.launch()
        for node in self._nodes.values():
            node.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill all nodes: the last ones would wait for a quorum that is gone."""
        for node in self._nodes.values():
            if node.is_alive():
                node.kill()


class CrabkaCluster(ClusterOfProcesses):
    """Nodes of Crabka, as `crabka cluster demo` runs them."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        """Prepare to run in the directory."""
        super().__init__(directory, count)
        self._demo: subprocess.Popen[bytes] | None = None

    def kill(self, node_id: int) -> None:
        """SIGKILL a node."""
        home = next(home for home in find_homes(str(self.directory)) if home.node_id == node_id)
        pid = running_pid(home)
        assert pid is not None, f"node {node_id} does not run"
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: running_pid(home) is None, f"node {node_id} is dead")

    def start_again(self, node_id: int) -> None:
        """Start a node that was killed."""
        command = [str(crabka_command()), "cluster", "start-node", str(node_id), "--data-dir", str(self.directory)]
        subprocess.run(command, check=True, capture_output=True, timeout=START_SECONDS)

    def extra_node(self, node_id: int, role: str) -> NodeProcess:
        """A further node with one role."""
        ports = NodePorts(node_id, free_port(), free_port())
        mode = ["--no-initial-controllers"] if role == "controller" else []
        properties = self.extra_properties(ports, role)
        cluster_id = self.meta(self.node_ids[0])["cluster.id"]
        return CrabkaServedNode(self.node_directory(node_id), ports, properties, ["--cluster-id", cluster_id, *mode])

    def __enter__(self) -> Self:
        """Start the demo and wait until it is ready."""
        self.directory.mkdir(parents=True, exist_ok=True)
        options = ["--nodes", str(len(self.node_ids)), "--data-dir", str(self.directory)]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            command = [str(crabka_command()), "cluster", "demo", *options]
            self._demo = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            wait_until(self._is_ready_or_dead, "the cluster is ready", timeout_s=START_SECONDS)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Interrupt the demo, which stops its nodes."""
        if self._demo is not None:
            self._demo.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._demo.wait(120)
            self._demo.kill()
            self._demo.wait()
        stop_processes(find_homes(str(self.directory)), timeout_seconds=0)

    def said(self) -> dict[str, str]:
        """What the demo has printed for programs so far."""
        lines = self._out.read_text().splitlines(keepends=True)
        return dict(line.strip().split("=", 1) for line in lines if line.endswith("\n"))

    @property
    def _out(self) -> Path:
        return self.directory / "demo.out"

    @property
    def _err(self) -> Path:
        return self.directory / "demo.err"

    def _is_ready_or_dead(self) -> bool:
        assert self._demo is not None
        assert self._demo.poll() is None, self._err.read_text()
        return "bootstrap.servers" in self.said()


class CrabkaServedNode(NodeProcess):
    """A node started by `crabka serve`, formatted at its first start."""

    name = "crabka"

    def __init__(
        self, directory: Path, ports: NodePorts, properties: Mapping[str, str], format_options: Sequence[str]
    ) -> None:
        """Prepare the node."""
        super().__init__(directory, properties)
        self.port = ports.broker_port
        self._waits_for = ports.broker_port if properties["process.roles"] == "broker" else ports.controller_port
        self._format_options = list(format_options)

    @property
    def properties_path(self) -> Path:
        """The server.properties that the node runs with."""
        return self.directory / "server.properties"

    def _prepare(self) -> None:
        if self.properties_path.exists():
            return
        self.properties_path.write_text(format_properties(self.settings))
        command = [str(crabka_command()), "format", "--config", str(self.properties_path), *self._format_options]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def _command(self) -> Sequence[str]:
        return [str(crabka_command()), "serve", "--config", str(self.properties_path)]

    def _is_ready(self) -> bool:
        return accepts_connections(self._waits_for)


def target_cluster(directory: Path, *, is_jvm: bool) -> ClusterOfProcesses:
    """A cluster of three nodes of the chosen kind, not started yet."""
    return JvmCluster(directory) if is_jvm else CrabkaCluster(directory)
