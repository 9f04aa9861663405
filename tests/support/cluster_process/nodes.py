"""One node of a cluster as a real process, of Crabka or of Apache Kafka, from a server.properties file."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.ids import uuid_from_text
from tests.support.kafka.oracle import CLUSTER_ID, java_command
from tests.support.nodes.crabka_up import crabka_command
from tests.support.nodes.process import PATIENCE_S, NodeError, NodeProcess

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Several nodes share the machine: small heaps, and a compiler and collector that leave cores to others.
SMALL_HEAP = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Which node; `is_voter` is False for a controller that starts as observer and joins on request."""

    node_id: int
    is_broker: bool
    is_controller: bool
    is_voter: bool = True

    @property
    def roles(self) -> str:
        """The value of process.roles."""
        return ",".join(["broker"] * self.is_broker + ["controller"] * self.is_controller)


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where a node listens and how to run there; a role that the node lacks leaves its port unused."""

    client_host: str
    cluster_host: str
    client_port: int
    internal_port: int
    controller_port: int
    command_prefix: Sequence[str] = ()

    @property
    def controller_address(self) -> str:
        """`host:port` of the controller listener."""
        return f"{self.cluster_host}:{self.controller_port}"


class ClusterNode(NodeProcess):
    """A node that can also be frozen; its properties file is written and its directory formatted once."""

    def __init__(self, directory: Path, spec: NodeSpec, place: NodePlace, settings: Mapping[str, str]) -> None:
        """Prepare the node; nothing is written before format()."""
        super().__init__(directory, settings)
        self.spec = spec
        self.place = place
        self.port = place.client_port
        self.is_paused = False

    @property
    def node_id(self) -> int:
        """Id of the node."""
        return self.spec.node_id

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients; the controller listener of a node that is no broker."""
        host, port = self._probed()
        return f"{host}:{port}"

    @property
    def controller_address(self) -> str:
        """`host:port` of the controller listener."""
        return self.place.controller_address

    @property
    def properties_path(self) -> Path:
        """The server.properties that the node runs with."""
        return self.directory / "server.properties"

    @property
    def directory_id(self) -> uuid.UUID:
        """The directory id that formatting gave to the node's only directory."""
        lines = (self.data_dir / "meta.properties").read_text().splitlines()
        (text,) = (line.partition("=")[2] for line in lines if line.startswith("directory.id="))
        return uuid_from_text(text)

    def begin_format(self, initial_controllers: str) -> subprocess.Popen[str]:
        """Write the properties and start to format; the caller waits, so that all nodes are formatted at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.properties_path.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        voters = ["--initial-controllers", initial_controllers]
        chosen = voters if self.spec.is_controller and self.spec.is_voter else ["--no-initial-controllers"]
        arguments = ["--config", str(self.properties_path), "--cluster-id", CLUSTER_ID, *chosen]
        command = self._format_command(arguments)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def pause(self) -> None:
        """SIGSTOP: the process keeps its sockets and does nothing."""
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT, if the node is paused."""
        if self.is_paused and self.is_alive():
            self._signal(signal.SIGCONT)
        self.is_paused = False

    def is_serving(self) -> bool:
        """Whether the port of the node accepts connections."""
        with contextlib.suppress(OSError), socket.create_connection(self._probed(), timeout=1):
            return True
        return False

    def stop(self, *, timeout_s: float = PATIENCE_S) -> int:
        """SIGTERM, also of a paused node."""
        self.resume()
        return super().stop(timeout_s=timeout_s)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or not self.is_alive():
            raise NodeError(f"{self.name} does not run")
        self._process.send_signal(number)

    def _probed(self) -> tuple[str, int]:
        if self.spec.is_broker:
            return self.place.client_host, self.place.client_port
        return self.place.cluster_host, self.place.controller_port

    def _is_ready(self) -> bool:
        return self.is_serving()

    def _properties(self) -> dict[str, str]:
        place, spec = self.place, self.spec
        client = f"CLIENT://{place.client_host}:{place.client_port}"
        internal = f"INTERNAL://{place.cluster_host}:{place.internal_port}"
        controller = f"CONTROLLER://{self.controller_address}"
        listeners = [client, internal] * spec.is_broker + [controller] * spec.is_controller
        return {
            "process.roles": spec.roles,
            "node.id": str(spec.node_id),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            **({"inter.broker.listener.name": "INTERNAL"} if spec.is_broker else {}),
            **self.settings,
        }

    def _format_command(self, arguments: list[str]) -> list[str]:
        raise NotImplementedError


class CrabkaClusterNode(ClusterNode):
    """`crabka format` and `crabka serve`."""

    name = "crabka"

    def _format_command(self, arguments: list[str]) -> list[str]:
        return [str(crabka_command()), "format", *arguments]

    def _command(self) -> Sequence[str]:
        serve = [str(crabka_command()), "serve", "--config", str(self.properties_path)]
        return [*self.place.command_prefix, *serve]


class JvmClusterNode(ClusterNode):
    """Apache Kafka's StorageTool and broker."""

    name = "kafka"
    options: Sequence[str] = SMALL_HEAP

    def _format_command(self, arguments: list[str]) -> list[str]:
        return java_command("kafka.tools.StorageTool", "format", *arguments)

    def _command(self) -> Sequence[str]:
        run = java_command("kafka.Kafka", str(self.properties_path), options=self.options)
        return [*self.place.command_prefix, *run]
