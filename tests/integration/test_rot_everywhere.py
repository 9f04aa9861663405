"""Flipped bytes in every kind of file of a cluster with a tier, one node at a time, running, stopped and killed.

Afterwards every acknowledged record is readable, the replicas are equal on disk, no file is damaged, all topics are
there, and what was repaired is in the log of its node with the reason. A flip without a line is in a file that was
written anew. Objects of the tier are damaged while everything is read, and restored afterwards: there a wrong byte is
corrected for each reader, and stays.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest

from tests.support.cluster_process.cluster import ClusterProcesses, combined
from tests.support.cluster_process.nodes import CrabkaClusterNode
from tests.support.faults.rotting_cluster import TOPICS, RottingCluster, rotting_settings, wait_topics
from tests.support.scale import scaled, soaking

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.timeout(0 if soaking() else 300),
    pytest.mark.allow_leaks("librdkafka keeps its descriptors and threads until it is collected"),
]

LOGGER = logging.getLogger(__name__)
FLIPS_PER_ROUND = 5
TIER_FLIPS_PER_ROUND = 3
# Kinds of files that every node of such a cluster has.
LASTING_KINDS = {
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "aborted-transactions-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    "crabka-copy-of-recovery-point-offset-checkpoint",
    "crabka-copy-of-replication-offset-checkpoint",
    "crabka-copy-of-log-start-offset-checkpoint",
    "crabka-copy-of-cleaner-offset-checkpoint",
    "crabka-copy-of-meta.properties",
    "metadata .log",
    "metadata .index",
    "metadata .timeindex",
    "metadata .snapshot",
    "metadata snapshot",
    "metadata quorum-state",
    "metadata crabka-copy-of-quorum-state",
    "metadata crabka-durable-end",
    "metadata leader-epoch-checkpoint",
    "metadata partition.metadata",
    "tier .log",
    "tier .index",
    "tier .timeindex",
    "tier .snapshot",
    "tier .leader_epoch_checkpoint",
}


@pytest.fixture(scope="module")
def rotting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RottingCluster]:
    """Three nodes with topics of small segments."""
    directory = tmp_path_factory.mktemp("rot")
    tier = directory / "tier"
    with ClusterProcesses(directory, CrabkaClusterNode, combined(3), settings=rotting_settings(tier)) as running:
        rotting = RottingCluster(running, tier)
        rotting.create_topics()
        rotting.produce(60)
        rotting.wait_whole([])
        yield rotting


def check_tier(rotting: RottingCluster, rng: random.Random) -> None:
    """Damage objects of the tier, read everything, and restore them, so that no batch is damaged twice."""
    brokers = rotting.cluster.brokers
    logged_before = {broker.node_id: len(broker.stderr_text()) for broker in brokers}
    flips = rotting.flip_tier(rng, TIER_FLIPS_PER_ROUND)
    LOGGER.info("tier: %s", "; ".join(map(str, flips)))
    rotting.check_content()
    said = "".join(broker.stderr_text()[logged_before[broker.node_id] :] for broker in brokers)
    rotting.restore_tier(flips, said)


def test_every_kind_of_file_is_repaired(rotting: RottingCluster, rng: random.Random) -> None:
    cluster = rotting.cluster
    for round_ in range(scaled(2, 48)):
        node = rng.choice(cluster.brokers)
        if round_ % 3 == 1:
            node.stop()
        elif round_ % 3 == 2:
            node.kill()
        logged_before = len(node.stderr_text())
        flips = rotting.flip(rng, node, FLIPS_PER_ROUND)
        LOGGER.info("round %d, node %d: %s", round_, node.node_id, "; ".join(map(str, flips)))
        if not node.is_alive():
            node.start()
            cluster.wait_registered()
        rotting.produce(6)
        wait_topics(cluster, set(TOPICS))
        rotting.wait_whole(flips)
        rotting.note_outcome(node, flips, node.stderr_text()[logged_before:])
        rotting.check_content()
        check_tier(rotting, rng)
    for name in ("flips", "reported", "replaced", "left"):
        LOGGER.info("%s: %s", name, dict(getattr(rotting, name)))
    if soaking():
        assert rotting.flips.total() >= 200
        assert rotting.reported["tier .log"] > 0
        assert rotting.flips.keys() >= LASTING_KINDS
