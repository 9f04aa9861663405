"""Nodes of a local cluster as processes: each in a group of its own, found again by its locked pid file.

A node's process holds a lock on its pid file while it runs. So any command can find out whether a node runs, and a
process id that the system reused is never signalled.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence

from crabka.cli.cluster.local_layout import NodeHome
from crabka.errors import ConfigError

POLL_SECONDS = 0.05
STOP_SECONDS = 60.0
READY = "bootstrap.servers="


def node_command(home: NodeHome) -> list[str]:
    """Return the command line of a node."""
    return [sys.executable, "-m", "crabka.cli", "serve", "--config", str(home.properties_path)]


def start_process(home: NodeHome, command: Sequence[str] | None = None) -> subprocess.Popen[bytes]:
    """Start a node, detached from this process. Raises ConfigError if it runs already."""
    lock = os.open(home.pid_path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"node {home.node_id} runs already, as process {read_pid(home)}") from None
        with home.log_path.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter with a path of ours
                command or node_command(home),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
            )
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % process.pid, 0)
        return process
    finally:
        os.close(lock)


def read_pid(home: NodeHome) -> int | None:
    """Return the process id of the last start."""
    try:
        return int(home.pid_path.read_text())
    except (OSError, ValueError):
        return None


def running_pid(home: NodeHome) -> int | None:
    """Return the process id of a node that runs, None if it does not."""
    try:
        lock = os.open(home.pid_path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return read_pid(home)
    finally:
        os.close(lock)
    return None


def stop_processes(homes: Iterable[NodeHome], timeout_seconds: float = STOP_SECONDS) -> list[NodeHome]:
    """Stop nodes and wait for them; return those that did not end in time and were killed."""
    running = [home for home in homes if _signal(home, signal.SIGTERM)]
    deadline = time.monotonic() + timeout_seconds
    while running and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        running = [home for home in running if running_pid(home) is not None]
    killed = [home for home in running if _signal(home, signal.SIGKILL)]
    while any(running_pid(home) is not None for home in killed):
        time.sleep(POLL_SECONDS)
    return killed


def _signal(home: NodeHome, number: signal.Signals) -> bool:
    pid = running_pid(home)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    return True


def log_size(home: NodeHome) -> int:
    """Return the size of the output of a node."""
    return home.log_path.stat().st_size if home.log_path.exists() else 0


def has_said_ready(home: NodeHome, since: int) -> bool:
    """Return whether a node has logged that it is ready, after a position in its log."""
    with home.log_path.open("rb") as log:
        log.seek(since)
        return any(line.startswith(READY.encode()) for line in log)


def last_words(home: NodeHome, line_count: int = 5) -> str:
    """Return the end of a node's log."""
    if not home.log_path.exists():
        return ""
    return "\n".join(home.log_path.read_text(errors="replace").splitlines()[-line_count:])
