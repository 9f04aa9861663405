"""A node on a thread of this process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from crabka.clients.sync.admin import SyncAdmin
from crabka.config.server import ServerConfig
from crabka.embedded.nodes.one_node import one_node_config
from crabka.embedded.nodes.thread_node import ThreadNode
from crabka.errors import ConfigError, StorageError
from crabka.node.node import Node


@pytest.fixture
def config(tmp_path: Path) -> ServerConfig:
    return one_node_config(str(tmp_path / "data"), "127.0.0.1", 0, {})


def is_marked_clean(config: ServerConfig) -> bool:
    return (Path(config.log_dirs[0]) / ".kafka_cleanshutdown").exists()


def test_node_serves_until_it_is_stopped(config: ServerConfig) -> None:
    before = set(threading.enumerate())
    node = ThreadNode(config).start()
    with SyncAdmin(node.bootstrap_servers) as admin:
        assert admin.cluster.describe().controller_id == 1
    node.stop()
    assert set(threading.enumerate()) <= before
    assert is_marked_clean(config)
    node.stop()
    node.kill()


def test_a_killed_node_leaves_no_mark_of_a_clean_stop_and_no_lock(config: ServerConfig) -> None:
    node = ThreadNode(config).start()
    with SyncAdmin(node.bootstrap_servers) as admin:
        admin.list_topics()
        node.kill()
    assert not is_marked_clean(config)
    ThreadNode(config).start().stop()


def test_a_paused_node_can_be_stopped_and_killed(config: ServerConfig) -> None:
    node = ThreadNode(config).start()
    node.pause()
    node.pause()
    node.stop()
    assert is_marked_clean(config)
    node = ThreadNode(config).start()
    node.pause()
    node.kill()
    assert not is_marked_clean(config)


def test_a_start_that_fails_says_why_and_leaves_no_thread(config: ServerConfig) -> None:
    node = ThreadNode(config).start()
    with pytest.raises(ConfigError, match="locked"):
        ThreadNode(config).start()
    node.stop()


def test_a_node_that_fails_ends_and_keeps_the_reason(config: ServerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[Node] = []
    start = Node.start

    async def noted(node: Node) -> None:
        nodes.append(node)
        await start(node)

    monkeypatch.setattr(Node, "start", noted)
    node = ThreadNode(config).start()
    reason = StorageError("/d", "the disk is gone")
    [running] = nodes
    assert node.failure is None
    running.failed.get_loop().call_soon_threadsafe(running._fail, reason)
    node._thread.join()
    assert node.failure is reason
    node.stop()
