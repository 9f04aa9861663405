"""Processes that are known by their locked pid files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crabka.cli.cluster.local_layout import NodeHome
from crabka.cli.cluster.local_processes import (
    has_said_ready,
    last_words,
    log_size,
    node_command,
    read_pid,
    running_pid,
    start_process,
    stop_processes,
)
from crabka.errors import ConfigError
from tests.support.nodes.process import wait_until

PATIENT = [sys.executable, "-c", "import signal; print('bootstrap.servers=x', flush=True); signal.pause()"]
_STUBBORNNESS = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("bootstrap.servers=x", flush=True)
while True:
    signal.pause()
"""
STUBBORN = [sys.executable, "-c", _STUBBORNNESS]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[NodeHome]:
    made = NodeHome(4, tmp_path)
    yield made
    stop_processes([made], timeout_seconds=0)


def _started(home: NodeHome, command: list[str]) -> subprocess.Popen[bytes]:
    said = log_size(home)
    process = start_process(home, command)
    wait_until(lambda: has_said_ready(home, said), "the process runs")
    return process


def test_a_node_is_served_from_its_properties(home: NodeHome) -> None:
    assert node_command(home)[1:] == ["-m", "crabka.cli", "serve", "--config", str(home.path / "server.properties")]


def test_a_process_is_found_until_it_stops(home: NodeHome) -> None:
    assert running_pid(home) is None
    process = _started(home, PATIENT)
    assert running_pid(home) == read_pid(home) == process.pid
    assert os.getpgid(process.pid) == process.pid
    with pytest.raises(ConfigError, match=f"node 4 runs already, as process {process.pid}"):
        start_process(home, PATIENT)
    assert stop_processes([home]) == []
    assert running_pid(home) is None
    assert process.wait() == -signal.SIGTERM


def test_a_killed_process_can_be_started_again(home: NodeHome) -> None:
    process = _started(home, PATIENT)
    process.kill()
    # No parent has waited for it yet: what counts is that it is dead.
    wait_until(lambda: running_pid(home) is None, "the process is dead")
    again = _started(home, PATIENT)
    assert running_pid(home) == again.pid
    assert process.wait() == -signal.SIGKILL
    stop_processes([home])
    again.wait()


def test_a_process_that_does_not_stop_is_killed(home: NodeHome) -> None:
    process = _started(home, STUBBORN)
    assert stop_processes([home], timeout_seconds=0.1) == [home]
    assert process.wait() == -signal.SIGKILL


def test_only_what_is_said_after_the_start_counts(home: NodeHome) -> None:
    home.log_path.write_text("bootstrap.servers=x\n" + "one\ntwo\n")
    assert has_said_ready(home, 0)
    assert not has_said_ready(home, log_size(home))
    assert last_words(home, 2) == "one\ntwo"
    home.pid_path.write_text("no number")
    assert read_pid(home) is None
