"""One node of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.config.presets import NodePorts
from crabka.embedded.client import KitClient
from crabka.embedded.cluster_node import ClusterNode, ClusterPlan
from crabka.embedded.edge.edge import Edge
from crabka.embedded.nodes.thread_node import ThreadNode
from crabka.embedded.port_reservation import PortReservation
from crabka.errors import StorageError


@pytest.fixture
def node(tmp_path: Path) -> ClusterNode:
    reservations = [PortReservation("127.0.0.1") for _ in range(2)]
    place = NodePorts(1, *(each.port for each in reservations))
    for each in reservations:
        each.release()
    plan = ClusterPlan([place], tmp_path, {}, Edge(journal=True))
    plan.nodes = {1: ClusterNode(plan, 1, KitClient(lambda: plan.address(1)))}
    return plan.nodes[1]


def test_a_node_is_a_broker_of_its_own_for_a_test(node: ClusterNode) -> None:
    for act in (node.pause, node.resume):
        with pytest.raises(RuntimeError, match="node 1 is not running"):
            act()
    node.restart()
    with pytest.raises(RuntimeError, match="running already"):
        node.start()
    assert (node.is_running, node.bootstrap, repr(node)) == (True, node.address, f"<node 1 on {node.address}: running>")
    node.stop()
    assert (node.data_dir / ".kafka_cleanshutdown").exists()
    node.start()
    node.pause()
    node.resume()
    node.kill()
    assert not (node.data_dir / ".kafka_cleanshutdown").exists()
    assert repr(node) == f"<node 1 on {node.address}: not running>"
    node.stop()
    node.restore()
    node.delay("Fetch", 1)
    node.pause()
    node.restore()
    assert node.is_running
    assert not list(node._edge().faults)
    node.kill()


def test_a_failure_is_raised_once_by_an_end_and_by_every_call(
    node: ClusterNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start()
    with monkeypatch.context() as patch:
        patch.setattr(ThreadNode, "failure", StorageError("/d", "the disk is gone"))
        assert not node.is_running
        node.stop()
    with pytest.raises(RuntimeError, match=r"node 1 has failed: .*the disk is gone"):
        node.raise_unreported()
    node.raise_unreported()
    node.start()
    with monkeypatch.context() as patch:
        patch.setattr(ThreadNode, "failure", StorageError("/d", "the disk is gone"))
        with pytest.raises(RuntimeError, match="has failed"):
            node.requests()
        node.stop()
        node.raise_unreported()
