"""Apache Kafka 4.3.0 itself: its command-line tools and its broker, as the oracle of interop tests and benchmarks.

Maven puts the jars named in tools/jvm/pom.xml once into `.cache/jvm/`; a stamp with the digest of that file says
that they are complete. Where Java or Maven is missing, tests skip with the reason, except in CI, where they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kafka.maven import MavenUnavailableError, fetched_jars
from tests.support.kafka.tool_server import SHARED_TOOLS, run_shared
from tests.support.nodes.process import PATIENCE_S, NodeProcess, accepts_connections
from tests.support.wire.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[3]
POM = ROOT / "tools" / "jvm" / "pom.xml"
CACHE = ROOT / ".cache" / "jvm"
# Classes of the tools, parsed once and mapped by every later start, which halves the time to start.
CLASS_ARCHIVE = CACHE / "tools.jsa"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
# Quick start matters more than peak speed for tools that live a second.
TOOL_OPTIONS = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Xlog:disable")
BROKER_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
# A broker with a tier of its own test classes; `rsm.config.dir` says where.
LOCAL_TIER = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "inter.broker.listener.name": "PLAINTEXT",
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a finished command-line tool left."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """Standard output, line by line, without empty lines."""
        return [line for line in self.stdout.splitlines() if line.strip()]


def jvm_jars() -> Path:
    """The directory of the jars, fetched if need be; raises MavenUnavailableError."""
    if shutil.which("java") is None:
        raise MavenUnavailableError("no java on the PATH")
    return fetched_jars(POM, CACHE, "Apache Kafka", on_fetched=_archive_classes)


def _archive_classes(jars: Path) -> None:
    """Write CLASS_ARCHIVE from a run of an admin tool without a broker; without it tools only start more slowly."""
    hasty = CACHE / "hasty.properties"
    hasty.write_text("default.api.timeout.ms=500\nrequest.timeout.ms=400\n")
    CLASS_ARCHIVE.unlink(missing_ok=True)
    question = ["--describe", "--entity-type", "brokers", "--entity-default"]
    nobody = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(hasty), *question]
    command = ["java", *TOOL_OPTIONS, f"-XX:ArchiveClassesAtExit={CLASS_ARCHIVE}", "-cp", f"{jars}/*"]
    main_class = "kafka.admin.ConfigCommand"
    subprocess.run([*command, main_class, *nobody], capture_output=True, timeout=120, check=False)


def require_jvm() -> Path:
    """As jvm_jars for tests: skips where it is unavailable, fails in CI."""
    try:
        return jvm_jars()
    except MavenUnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI needs the JVM parts: {error}")
        pytest.skip(str(error))


def java_command(main_class: str, *arguments: str, options: Sequence[str] = TOOL_OPTIONS) -> list[str]:
    """The command line that runs a class of Kafka's jars."""
    jars = jvm_jars()
    archive = [f"-XX:SharedArchiveFile={CLASS_ARCHIVE}"] if options is TOOL_OPTIONS and CLASS_ARCHIVE.exists() else []
    return ["java", *options, *archive, "-cp", f"{jars}/*", main_class, *arguments]


def run_tool(
    main_class: str, *arguments: str, stdin: str | None = None, timeout_s: float = PATIENCE_S, check: bool = True
) -> ToolResult:
    """Run one of Kafka's tools to its end; a failure or a timeout fails the test with all that it printed."""
    said = f"{main_class.rpartition('.')[2]} {' '.join(arguments)}"
    if stdin is None and main_class in SHARED_TOOLS:
        result = _run_shared(main_class, arguments, said, timeout_s)
    else:
        result = _run_alone(java_command(main_class, *arguments), said, stdin or "", timeout_s)
    if check and result.code != 0:
        pytest.fail(f"{said} ended with {result.code}\nstdout: {result.stdout}\nstderr: {result.stderr}")
    return result


def _run_shared(main_class: str, arguments: Sequence[str], said: str, timeout_s: float) -> ToolResult:
    command = ["java", *TOOL_OPTIONS, "-cp", f"{jvm_jars()}/*"]
    try:
        return ToolResult(*run_shared(main_class, arguments, command, timeout_s))
    except TimeoutError:
        pytest.fail(f"{said} did not end in {timeout_s:g} s")


def _run_alone(command: Sequence[str], said: str, stdin: str, timeout_s: float) -> ToolResult:
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"{said} did not end in {timeout_s:g} s\nstdout: {error.stdout!r}\nstderr: {error.stderr!r}")
    return ToolResult(done.returncode, done.stdout, done.stderr)


class JvmKafka(NodeProcess):
    """One combined broker and controller of Apache Kafka, 1 GiB heap, formatted at its first start."""

    name = "kafka"
    # Of the virtual machine.
    options: Sequence[str] = BROKER_OPTIONS

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Prepare the node; ports are chosen here and kept over restarts."""
        super().__init__(directory, settings)
        self.port = free_port()
        self._controller_port = free_port()

    @property
    def properties_path(self) -> Path:
        """The server.properties that the node runs with."""
        return self.directory / "server.properties"

    def format(self) -> None:
        """Write the properties and format the log dirs, unless that was done before."""
        if self.properties_path.exists():
            return
        self._write_properties()
        arguments = ["format", "--config", str(self.properties_path), "--cluster-id", CLUSTER_ID, "--standalone"]
        run_tool("kafka.tools.StorageTool", *arguments, *self._format_options())

    def _write_properties(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}" for key, value in self._properties().items()]
        self.properties_path.write_text("\n".join(lines) + "\n")

    def _properties(self) -> dict[str, str]:
        single = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
        return single | self.settings

    def _format_options(self) -> Sequence[str]:
        """More options of the format command."""
        return ()

    def _prepare(self) -> None:
        self.format()

    def _command(self) -> Sequence[str]:
        return java_command("kafka.Kafka", str(self.properties_path), options=self.options)

    def _is_ready(self) -> bool:
        return accepts_connections(self.port)
