"""A node on a thread of this process."""

from __future__ import annotations

import threading
from pathlib import Path

from crabka.clients.sync.admin import SyncAdmin
from crabka.embedded.in_thread import ThreadNode


def test_node_serves_until_it_is_stopped(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    node = ThreadNode.start(str(tmp_path), "127.0.0.1", 0, {})
    with SyncAdmin(node.bootstrap_servers) as admin:
        assert admin.cluster.describe().controller_id == 1
    node.stop()
    assert set(threading.enumerate()) <= before
    node.stop()
