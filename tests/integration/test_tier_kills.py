"""kill -9 at every named step of copying, retention and deletion: nothing is lost, nothing is left over."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support.cluster_process.cluster import ClusterProcesses, combined
from tests.support.cluster_process.nodes import CrabkaClusterNode
from tests.support.faults import tier_kills as scene
from tests.support.nodes.process import NodeProcess, wait_until
from tests.support.scale import soaking

# In a normal run the steps after which most is left half done.
ONE_NODE = scene.STEPS if soaking() else ("copy.after_upload", "retention.after_log_start", "delete.after_started")
THREE_NODES = scene.STEPS if soaking() else ("copy.after_started", "delete_partition.after_started")
KILLED = -9


def run_to_death(step: str, node: NodeProcess, bootstrap: str, tier: Path, *, is_alone: bool) -> list[bytes]:
    """Do what makes the node take the step; return what was acknowledged."""
    acknowledged: list[bytes] = []
    if step in scene.COPY_STEPS:
        # Without another node nothing is acknowledged any more.
        scene.produce(bootstrap, acknowledged, is_in_vain=lambda: is_alone and not node.is_alive())
    else:
        scene.produce(bootstrap, acknowledged)
        scene.wait_tiered(tier, 8)
        if step in scene.RETENTION_STEPS:
            scene.keep_only_bytes(bootstrap, 5_000)
        else:
            scene.delete_topic(bootstrap)
    assert node.wait_exit() == KILLED
    return acknowledged


def check_survivors(step: str, bootstrap: str, tier: Path, acknowledged: list[bytes]) -> None:
    """Everything that was acknowledged and not deleted can be read, and the tier has what it should and no more."""
    scene.wait_clean(bootstrap, tier)
    if step in scene.DELETION_STEPS:
        wait_until(lambda: not scene.segment_files(tier), "nothing is left of the topic")
        scene.wait_clean(bootstrap, tier)
        return
    start, values = scene.read_all(bootstrap)
    kept = [value for value in acknowledged if value in set(values)]
    if step in scene.COPY_STEPS:
        assert start == 0
        assert kept == acknowledged
    else:
        assert kept == acknowledged[len(acknowledged) - len(kept) :]
        assert kept
    assert len(set(values)) == len(values)
    assert values == sorted(values)


@pytest.mark.parametrize("step", ONE_NODE)
def test_a_node_that_dies_at_a_step_goes_on_where_it_was(step: str, tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    node = scene.MortalNode(tmp_path / "node", scene.tier_settings(tier, replicas=1))
    node.step = step
    with node:
        scene.create(node.bootstrap_servers)
        acknowledged = run_to_death(step, node, node.bootstrap_servers, tier, is_alone=True)
        node.step = ""
        node.start()
        check_survivors(step, node.bootstrap_servers, tier, acknowledged)


@pytest.mark.parametrize("step", THREE_NODES)
def test_other_nodes_go_on_where_a_dead_leader_was(step: str, tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    cluster = ClusterProcesses(tmp_path, CrabkaClusterNode, combined(3), settings=scene.tier_settings(tier, replicas=3))
    doomed = cluster.nodes[1]
    healthy = doomed.place
    doomed.place = dataclasses.replace(healthy, command_prefix=(*healthy.command_prefix, *scene.dying_at(step)))
    with cluster:
        scene.create(cluster.bootstrap_servers, [[1, 2, 3]])
        acknowledged = run_to_death(step, doomed, cluster.bootstrap_servers, tier, is_alone=False)
        others = ",".join(node.bootstrap_servers for node in cluster.brokers if node is not doomed)
        check_survivors(step, others, tier, acknowledged)
        doomed.place = healthy
        doomed.start()
        check_survivors(step, cluster.bootstrap_servers, tier, acknowledged)
