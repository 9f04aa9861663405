"""A cluster in one process, as a test uses it."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pytest

from crabka.clients.sync.admin import SyncAdmin
from crabka.embedded import Cluster
from crabka.embedded.settings import Settings
from crabka.errors import ConfigError, OperationError

PATIENCE_S = 60.0


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


def wait_in_sync(cluster: Cluster, topic: str) -> None:
    cluster.wait_until(lambda: cluster.in_sync(topic) == [1, 2, 3], PATIENCE_S)


def test_nodes_are_killed_cut_apart_paused_and_come_back() -> None:
    with Cluster(nodes=3) as cluster:
        directory = cluster[1].data_dir.parent
        topic = cluster.create_topic("t")
        wait_in_sync(cluster, topic)
        cluster.produce(topic, ["before"])
        with SyncAdmin(cluster[2].bootstrap_servers) as admin:
            assert [each.node_id for each in admin.cluster.describe().brokers] == cluster.node_ids == [1, 2, 3]

        killed = cluster.leader(topic)
        cluster.kill(killed)
        cluster.kill(killed)
        with pytest.raises(RuntimeError, match=f"node {killed} is not running"):
            _ = cluster[killed].bootstrap_servers
        cluster.wait_until(lambda: cluster.leader(topic) not in (-1, killed), PATIENCE_S)
        cluster.produce(topic, ["one is killed"])
        address = cluster[killed].address
        cluster.restart(killed)
        assert cluster[killed].bootstrap_servers == address
        wait_in_sync(cluster, topic)

        alone = cluster.leader(topic)
        others = [each for each in cluster.node_ids if each != alone]
        cluster.partition([alone], others)
        cluster.wait_until(lambda: cluster.leader(topic) in others and cluster.controller() in others, PATIENCE_S)
        cluster.produce(topic, ["one is cut off"])
        cluster.heal()
        wait_in_sync(cluster, topic)

        paused = cluster.leader(topic)
        cluster.pause(paused)
        cluster.wait_until(lambda: cluster.leader(topic) not in (-1, paused), PATIENCE_S)
        cluster.produce(topic, ["one is paused"])
        cluster.resume(paused)
        wait_in_sync(cluster, topic)
        assert values(cluster, topic) == [b"before", b"one is killed", b"one is cut off", b"one is paused"]
        # What the nodes and the kit asked is not of clients.
        assert {each.api for each in cluster.requests()} <= {"ApiVersions", "DescribeCluster", "Metadata"}
    assert not directory.exists()


def test_a_majority_may_be_killed_and_all_may_be_stopped() -> None:
    with Cluster(3) as cluster:
        topic = cluster.create_topic("t")
        wait_in_sync(cluster, topic)
        cluster.produce(topic, ["kept"])
        address = cluster.bootstrap_servers
        for node in cluster:
            node.kill()
        with pytest.raises(RuntimeError, match="no node of the cluster is running"):
            cluster.produce(topic, ["lost"])
        # Too few for a quorum: the first does not wait for the others.
        cluster.restart(1)
        assert (cluster[1].is_started, cluster[1].is_running) == (True, False)
        cluster.restart(2)
        cluster.wait_until(lambda: cluster[1].is_running, PATIENCE_S)
        cluster.restart(3)
        assert values(cluster, topic) == [b"kept"]
        cluster.stop()
        cluster.stop()
        assert repr(cluster) == "<Cluster of 3 nodes: none running>"
        cluster.start()
        assert cluster.bootstrap_servers == address
        assert values(cluster, topic) == [b"kept"]
        with pytest.raises(RuntimeError, match="running already"):
            cluster.start()


def test_what_a_test_did_is_undone() -> None:
    with Cluster(1) as cluster:
        cluster.delay("Fetch", 1)
        cluster[1].delay("Fetch", 2)
        cluster[1].clear_faults()
        assert [str(fault.effect) for fault in cluster._edge().faults] == ["answer delayed by 1 s"]
        cluster.pause(1)
        cluster.restore()
        assert not list(cluster._edge().faults)
        cluster.kill(1)
        assert not cluster.is_running
        cluster.restore()
        assert cluster.is_running
        cluster.pause(1)
        cluster.resume()
        cluster.restart()
        assert cluster.is_running
    assert not cluster.is_running


def test_faults_and_requests_are_those_of_one_node_or_of_all() -> None:
    settings: Settings = {"num.partitions": 5, "auto.create.topics.enable": False}
    with Cluster(2, settings) as cluster:
        with SyncAdmin(cluster[1].bootstrap_servers) as admin:
            cluster[2].fail_next("CreateTopics", "NOT_CONTROLLER", times=None)
            cluster.create_topic("t")
            assert len(admin.list_topics()) == 1
            cluster[1].fail_next("DescribeCluster", "INVALID_REQUEST")
            with pytest.raises(OperationError):
                admin.cluster.describe()
        assert {each.node_id for each in cluster[1].requests()} == {1}
        assert cluster[2].requests("DescribeCluster") == []
        assert [each.errors for each in cluster.requests("DescribeCluster")] == [("INVALID_REQUEST",)]
        assert "[fault: INVALID_REQUEST]" in str(cluster.journal)


def test_async_context_manager_serves() -> None:
    async def scenario() -> int:
        async with Cluster(1) as cluster:
            return await asyncio.to_thread(cluster.controller)

    assert asyncio.run(scenario()) == 1


def test_what_makes_no_sense_is_refused() -> None:
    for count in (0, 10, "3", True):
        with pytest.raises(ValueError, match=f"a cluster has 1 to 9 nodes, not {count!r}"):
            Cluster(count)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions\?"):
        Cluster(settings={"num.partition": 1})
    with pytest.raises(ConfigError, match=r"say how many by Cluster\(nodes=…\)"):
        Cluster(settings={"controller.quorum.voters": "1@a:1"})
    cluster = Cluster()
    for ask in (lambda: cluster[1], cluster.heal, lambda: cluster.kill(1)):
        with pytest.raises(RuntimeError, match="the cluster was not started"):
            ask()
    with pytest.raises(LookupError, match="there is no node 4: the nodes are 1 to 3"):
        cluster.kill(4)
    with pytest.raises(ValueError, match="two groups at least"):
        cluster.partition([1])
    with pytest.raises(RuntimeError, match="no node of the cluster is running"):
        _ = cluster.bootstrap_servers
    with pytest.raises(TypeError, match="bootstrap_servers"):
        pickle.dumps(cluster)
    cluster.close()


def test_a_tier_serves_all_nodes(tmp_path: Path) -> None:
    with Cluster(1, {"remote.log.manager.task.interval.ms": 100}, tier=tmp_path / "tier") as cluster:
        cluster.create_topic("t", settings={"remote.storage.enable": True})
        cluster.produce("t", ["x"])
        assert values(cluster, "t") == [b"x"]
