"""A cluster of Apache Kafka nodes, each broker and controller, as the oracle of tests that need several nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crabka.config.presets import NodePorts, combined_node_properties
from crabka.config.properties import format_properties
from crabka.ids import uuid_to_text
from crabka.quorum.formatting import new_directory_id
from crabka.runtime import real_runtime
from tests.support.kafka.oracle import CLUSTER_ID, java_command, run_tool
from tests.support.nodes.process import NodeProcess, accepts_connections
from tests.support.wire.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Several of them share one machine.
NODE_OPTIONS = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JvmQuorumNode(NodeProcess):
    """A node of Apache Kafka with given properties and a given way to begin its quorum."""

    name = "kafka"
    start_timeout_s = 120.0

    def __init__(self, directory: Path, ports: NodePorts, properties: Mapping[str, str], mode: Sequence[str]) -> None:
        """Prepare the node; `mode` are the options of `kafka-storage format` for its quorum."""
        super().__init__(directory, properties)
        self.node_id = ports.node_id
        self.port = ports.broker_port
        self._waits_for = ports.broker_port if "broker" in properties["process.roles"] else ports.controller_port
        self._mode = list(mode)

    @property
    def properties_path(self) -> Path:
        """The server.properties that the node runs with."""
        return self.directory / "server.properties"

    def _prepare(self) -> None:
        if self.properties_path.exists():
            return
        self.properties_path.write_text(format_properties(self.settings))
        arguments = ["--config", str(self.properties_path), "--cluster-id", CLUSTER_ID, *self._mode]
        run_tool("kafka.tools.StorageTool", "format", *arguments)

    def _command(self) -> Sequence[str]:
        return java_command("kafka.Kafka", str(self.properties_path), options=NODE_OPTIONS)

    def _is_ready(self) -> bool:
        return accepts_connections(self._waits_for)


def jvm_cluster_nodes(directory: Path, count: int) -> dict[int, JvmQuorumNode]:
    """Nodes 1 to `count` of one cluster, all voters from the beginning, not started yet."""
    ports = [NodePorts(number, free_port(), free_port()) for number in range(1, count + 1)]
    voters = ",".join(f"{each.node_id}@{each.controller_address}:{_new_id()}" for each in ports)
    return {
        each.node_id: JvmQuorumNode(
            directory / f"node-{each.node_id}",
            each,
            combined_node_properties(each, ports, str(directory / f"node-{each.node_id}" / "data")),
            ["--initial-controllers", voters],
        )
        for each in ports
    }


def _new_id() -> str:
    runtime = real_runtime()
    try:
        return uuid_to_text(new_directory_id(runtime))
    finally:
        runtime.threads.close()
