"""A plugin for a pytest run in a process of its own: writes down what is left there when the last test is over."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import psutil
import pytest

REPORTS = "CRABKA_TRACES"


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    before: set[threading.Thread] = set(threading.enumerate())
    session.config.stash[_THREADS] = before


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report threads, processes and listening sockets. Workers of xdist are no traces of the tests."""
    gc.collect()
    me = psutil.Process()
    before = session.config.stash[_THREADS]
    found = [f"thread {thread.name}" for thread in threading.enumerate() if thread not in before]
    found += [f"port {each.laddr.port}" for each in me.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    if not session.config.getoption("numprocesses", None):
        found += [f"process {' '.join(child.cmdline())}" for child in me.children(recursive=True)]
    (Path(os.environ[REPORTS]) / str(os.getpid())).write_text("".join(f"{each}\n" for each in found))


_THREADS = pytest.StashKey[set[threading.Thread]]()
