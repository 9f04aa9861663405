"""A node in a child process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from crabka.clients.sync.admin import SyncAdmin
from crabka.embedded.nodes.process_node import ProcessNode
from crabka.errors import ConfigError


def test_child_serves_stops_cleanly_and_can_be_killed(tmp_path: Path) -> None:
    node = ProcessNode(str(tmp_path), "127.0.0.1", 0, {}).start()
    with SyncAdmin(node.bootstrap_servers) as admin:
        assert admin.cluster.describe().controller_id == 1
    node.stop()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    node = ProcessNode(str(tmp_path), "127.0.0.1", 0, {}).start()
    node.pause()
    node.kill()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert node.failure is None


def test_a_child_that_ended_by_itself_has_failed(tmp_path: Path) -> None:
    node = ProcessNode(str(tmp_path), "127.0.0.1", 0, {}).start()
    os.kill(node.pid, signal.SIGKILL)
    os.waitid(os.P_PID, node.pid, os.WEXITED | os.WNOWAIT)
    assert node.failure is node.failure is not None
    assert str(node.failure) == "the broker process was ended by SIGKILL"
    node.stop()


def test_last_words_of_a_child_that_cannot_start_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        ProcessNode(str(tmp_path), "127.0.0.1", 0, {"num.partitions": "many"}).start()
