"""Nodes that are never stopped."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

from crabka.embedded import Broker
from crabka.embedded.nodes.forgotten import end_when_forgotten

FORGETFUL = """
import logging
from crabka.embedded import Broker, Cluster
logging.disable()
kept = [Broker().start(), Cluster(2).start()]
kept[0].produce("t", ["x"])
kept[1].produce("t", ["x"])
Broker(process=True).start()
"""


class Owner:
    pass


def test_it_is_killed_once_when_its_owner_is_forgotten() -> None:
    killed: list[str] = []
    first, second = Owner(), Owner()
    end_when_forgotten(first, lambda: killed.append("first"))
    call_off = end_when_forgotten(second, lambda: killed.append("second"))
    call_off()
    call_off()
    del first, second
    assert killed == ["first"]


def test_a_collector_on_another_thread_does_not_wait() -> None:
    ended, may_end = threading.Event(), threading.Event()
    owners = [Owner()]

    def wait() -> None:
        may_end.wait()

    end_when_forgotten(owners[0], wait, ended.set)
    forgetting = threading.Thread(target=owners.clear)
    forgetting.start()
    forgetting.join()
    may_end.set()
    ended.wait()


def test_a_forgotten_broker_leaves_neither_threads_nor_files() -> None:
    # The checks of every test look for threads.
    broker = Broker().start()
    broker.produce("t", ["x"])
    directory = broker.data_dir.parent
    del broker
    gc.collect()
    assert not directory.exists()


def test_a_program_that_stops_nothing_ends_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", FORGETFUL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
