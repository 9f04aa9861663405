"""A node in a child process."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.clients.sync.admin import SyncAdmin
from crabka.embedded.in_process import ProcessNode
from crabka.errors import ConfigError


def test_child_serves_and_stops_cleanly(tmp_path: Path) -> None:
    node = ProcessNode.start(str(tmp_path), "127.0.0.1", 0, {})
    with SyncAdmin(node.bootstrap_servers) as admin:
        assert admin.cluster.describe().controller_id == 1
    node.stop()
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_last_words_of_a_child_that_cannot_start_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        ProcessNode.start(str(tmp_path), "127.0.0.1", 0, {"num.partitions": "many"})
