"""Controllers join and leave a running quorum under load: 1 -> 3 -> 5 -> 3, the leader among those that leave.

Producers never lose a record or give one up, and clients that change metadata meet no error but those that ask to try
again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from crabka.errors import CrabkaError
from tests.support.clients.target import target_cluster_node
from tests.support.cluster_process.admin_load import MetadataLoad
from tests.support.cluster_process.cluster import ClusterProcesses, separate
from tests.support.cluster_process.load import SequencedLoad
from tests.support.cluster_process.quorum import add_voter, remove_voter
from tests.support.cluster_process.reading import read_committed
from tests.support.nodes.process import NodeError, wait_until
from tests.support.scale import scaled, soaking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.cluster_process.quorum import QuorumDescription

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(1800 if soaking() else 300),
    pytest.mark.allow_leaks("librdkafka keeps its descriptors and threads until it is collected"),
]

TOPIC = "written"
PARTITIONS = 3
FIRST = 101
ALONE = {"default.replication.factor": "1", "min.insync.replicas": "1", "offsets.topic.replication.factor": "1"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    """Brokers and one controller; four more controllers are formatted to join."""
    brokers = scaled(1, 3)
    settings = ALONE if brokers == 1 else {}
    with ClusterProcesses(
        tmp_path, target_cluster_node(), separate(brokers, 5, voters=1), settings=settings
    ) as running:
        yield running


def _persist(
    change: Callable[[], None], is_done: Callable[[QuorumDescription], bool], cluster: ClusterProcesses
) -> None:
    """Ask for a change of the voters until it shows; retriable refusals and lost answers are part of the game."""
    failures: list[str] = []

    def shows() -> bool:
        with contextlib.suppress(CrabkaError):
            if is_done(cluster.quorum()):
                return True
        try:
            change()
        except CrabkaError as error:
            failures.append(str(error))
        return False

    try:
        wait_until(shows, "the change of the voters shows")
    except NodeError as error:
        raise NodeError(f"{error}: {failures[-5:]}") from None


def _join(cluster: ClusterProcesses, node_id: int) -> None:
    node = cluster.nodes[node_id]
    node.launch()
    cluster.wait_serving(node)
    wait_until(lambda: node_id in cluster.quorum().observers, f"{node_id} observes the quorum")
    _persist(lambda: add_voter(cluster.server_list, node), lambda quorum: node_id in quorum.voters, cluster)


def _leave(cluster: ClusterProcesses, node_id: int) -> None:
    node = cluster.nodes[node_id]

    def gone(quorum: QuorumDescription) -> bool:
        return node_id not in quorum.voters and quorum.leader_id != node_id

    _persist(lambda: remove_voter(cluster.server_list, node_id, node.directory_id), gone, cluster)
    node.stop()


def _check_voters(cluster: ClusterProcesses, expected: set[int], metadata: MetadataLoad) -> None:
    """The voters are these, and the quorum carries out changes."""
    assert set(cluster.quorum().voters) == expected
    goal = metadata.done_count + 4
    wait_until(lambda: metadata.refused or metadata.done_count >= goal, "metadata changes go on")
    metadata.check()


def test_quorum_grows_and_shrinks_under_load(cluster: ClusterProcesses) -> None:
    cluster.create_topic(TOPIC, PARTITIONS)
    load = SequencedLoad(cluster.bootstrap_servers, TOPIC, PARTITIONS)
    metadata = MetadataLoad(cluster.bootstrap_servers, min(3, len(cluster.brokers)))
    with contextlib.ExitStack() as ending:
        for running in (load, metadata):
            running.start()
            ending.callback(running.stop)
        voters = {FIRST}
        _check_voters(cluster, voters, metadata)
        for pair in ((102, 103), (104, 105)):
            for node_id in pair:
                _join(cluster, node_id)
            voters |= set(pair)
            _check_voters(cluster, voters, metadata)
        for _ in range(2):
            leader = cluster.active_controller()
            _leave(cluster, leader)
            voters.discard(leader)
            assert cluster.active_controller() in voters
        _check_voters(cluster, voters, metadata)
    metadata.check()
    load.check(read_committed(cluster.admin(), cluster.bootstrap_servers, TOPIC, PARTITIONS))
    print(f"{metadata.done_count} metadata changes, {len(metadata.retried)} tried again: {set(metadata.retried)}")
