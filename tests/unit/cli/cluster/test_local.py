"""`crabka cluster` with a cluster of one node; more nodes differ only in their number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crabka.cli.cluster.local_layout import find_homes, open_homes
from crabka.cli.cluster.local_processes import running_pid, stop_processes
from tests.support.nodes.process import wait_until
from tests.unit.cli.conftest import RunCommand


class DemoOfTest:
    """The demo as a process, with what it prints."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.out, self.err = directory.parent / "demo.out", directory.parent / "demo.err"
        command = [sys.executable, "-m", "crabka.cli", "cluster", "demo", "--data-dir", str(directory), *options]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)

    def said(self) -> dict[str, str]:
        """The lines for programs that are complete."""
        lines = self.out.read_text().splitlines(keepends=True)
        return dict(line.strip().split("=", 1) for line in lines if line.endswith("\n"))

    def wait_ready(self) -> str:
        """The bootstrap servers, once they are printed."""
        wait_until(self._ready_or_dead, "the cluster is ready")
        return self.said()["bootstrap.servers"]

    def _ready_or_dead(self) -> bool:
        assert self.process.poll() is None, self.err.read_text()
        return "bootstrap.servers" in self.said()

    def interrupt(self) -> int:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(120)


def start_node_apart(directory: Path) -> subprocess.CompletedProcess[str]:
    """Start node 1 by a command of its own, which ends while the node goes on."""
    command = [sys.executable, "-m", "crabka.cli", "cluster", "start-node", "1", "--data-dir", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cluster"
    stop_processes(find_homes(str(tmp_path / "cluster")), timeout_seconds=5)


def test_a_demo_runs_until_it_is_interrupted_and_keeps_its_data(crabka: RunCommand, directory: Path) -> None:
    demo = DemoOfTest(directory, "--nodes", "1")
    bootstrap = demo.wait_ready()
    (home,) = find_homes(str(directory))
    assert demo.said()["node.1.pid"] == str(running_pid(home))
    where = ("--data-dir", str(directory))
    (row,) = crabka("cluster", "status", *where, "--json").json
    assert (row["pid"], row["state"], row["broker"], row["address"]) == (
        running_pid(home),
        "running",
        "active",
        bootstrap,
    )
    assert crabka("topics", "create", "kept", "--bootstrap", bootstrap).code == 0
    for command in (("start-node", "1"), ("demo",)):
        refused = crabka("cluster", *command, *where)
        assert (refused.code, "node 1 runs already" in refused.err) == (2, True)
    assert demo.interrupt() == 0
    assert running_pid(home) is None
    (row,) = crabka("cluster", "status", *where, "--json").json
    assert (row["pid"], row["state"], row["broker"]) == (None, "stopped", None)
    again = DemoOfTest(directory)
    assert again.wait_ready() == bootstrap
    assert crabka("topics", "describe", "kept", "--bootstrap", bootstrap).code == 0
    assert again.interrupt() == 0


def test_a_killed_node_stays_dead_until_it_is_started(directory: Path) -> None:
    demo = DemoOfTest(directory, "--nodes", "1")
    bootstrap = demo.wait_ready()
    (home,) = find_homes(str(directory))
    os.kill(int(demo.said()["node.1.pid"]), signal.SIGKILL)
    wait_until(lambda: "node 1 has ended" in demo.err.read_text(), "the demo reports it")
    started = start_node_apart(directory)
    assert started.stdout == f"node.1.pid={running_pid(home)}\nbootstrap.servers={bootstrap}\n", started.stderr
    wait_until(lambda: "node 1 is back as process" in demo.err.read_text(), "the demo reports it")
    assert demo.interrupt() == 0
    assert running_pid(home) is None


def test_a_node_that_cannot_start_ends_the_demo(crabka: RunCommand, directory: Path) -> None:
    (home,) = open_homes(str(directory), 1, None)
    home.properties_path.write_text(home.properties_path.read_text().replace("node.id=1", "node.id=7"))
    demo = DemoOfTest(directory)
    assert demo.process.wait(120) == 1
    assert "crabka: node 1 has ended:" in demo.err.read_text()
    failed = crabka("cluster", "start-node", "1", "--data-dir", str(directory))
    assert (failed.code, "crabka: node 1 has ended:" in failed.err) == (1, True)


def test_all_nodes_of_a_directory_can_be_stopped(crabka: RunCommand, directory: Path) -> None:
    (home,) = open_homes(str(directory), 1, None)
    assert start_node_apart(directory).returncode == 0
    assert running_pid(home) is not None
    assert crabka("cluster", "stop", "--data-dir", str(directory)) == (0, "", "stopping\n")
    assert running_pid(home) is None


def test_there_must_be_a_cluster(crabka: RunCommand, directory: Path) -> None:
    for command in ("status", "stop"):
        refused = crabka("cluster", command, "--data-dir", str(directory))
        assert (refused.code, "holds no cluster" in refused.err) == (2, True)
    open_homes(str(directory), 1, None)
    missing = crabka("cluster", "start-node", "2", "--data-dir", str(directory))
    assert (missing.code, "has no node 2" in missing.err) == (2, True)
