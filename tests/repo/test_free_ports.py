"""The ports that tests give to servers: each once, and each process its own."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wire.ports import FIRST_PORT, LANES, LAST_PORT, NoPortLeftError, PortWalk, free_port, lane, lane_of


def test_no_port_is_given_twice() -> None:
    ports = [free_port() for _ in range(500)]
    assert len(set(ports)) == 500


def test_workers_of_one_run_never_meet() -> None:
    turns = [set(itertools.islice(lane(lane_of(f"gw{worker}"), worker * 31), 2_500)) for worker in range(LANES)]
    assert sum(map(len, turns)) == len(set().union(*turns)) == LAST_PORT - FIRST_PORT + 1


def test_who_runs_without_workers_has_a_lane() -> None:
    assert lane_of("") == lane_of("master") == 0


def test_a_port_in_use_is_passed_over() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        walk = PortWalk(0, 0)
        walk._ports = itertools.cycle([holder.getsockname()[1]])
        with pytest.raises(NoPortLeftError):
            walk.take()


def test_processes_begin_at_different_places() -> None:
    command = [sys.executable, "-c", "from tests.support.wire.ports import free_port; print(free_port())"]
    first, second = (subprocess.check_output(command, text=True, cwd=Path(__file__).parents[2]) for _ in range(2))
    assert first != second
