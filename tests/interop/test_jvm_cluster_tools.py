"""Kafka's own tools against a cluster of three nodes: quorum, elections, reassignments, features, registrations."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from crabka.clients.sync.producer import SyncProducer
from tests.support.clients.target import target_is_jvm
from tests.support.clusters.processes import ClusterOfProcesses, target_cluster
from tests.support.kafka.oracle import ToolResult, require_jvm, run_tool
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"

# A broker that is killed is noticed after its session, 9 s.
CHANGE_SECONDS = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfProcesses]:
    require_jvm()
    with target_cluster(tmp_path_factory.mktemp("cluster"), is_jvm=target_is_jvm()) as running:
        brokers = partial(run_tool, CLUSTER, "list-endpoints", "--bootstrap-server", running.bootstrap_servers)
        wait_until(lambda: len(brokers().lines) == 1 + len(running.node_ids), "all brokers are there")
        yield running


@pytest.fixture(scope="module")
def tool(cluster: ClusterOfProcesses) -> Callable[..., ToolResult]:
    """Run one of Kafka's tools against the brokers."""

    def run(main_class: str, *arguments: str, check: bool = True) -> ToolResult:
        where = ("--bootstrap-server", cluster.bootstrap_servers)
        # Tools with subcommands want the address behind them, MetadataQuorumCommand before.
        if main_class == CLUSTER:
            return run_tool(main_class, arguments[0], *where, *arguments[1:], check=check)
        return run_tool(main_class, *where, *arguments, check=check)

    return run


def _status(shown: ToolResult) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in shown.lines)


def _replication(shown: ToolResult) -> dict[int, dict[str, str]]:
    header, *rows = (line.split("\t") for line in shown.lines)
    names = [name.strip() for name in header]
    found = (dict(zip(names, (cell.strip() for cell in row), strict=True)) for row in rows)
    return {int(row["NodeId"]): row for row in found}


def _replicas(tool: Callable[..., ToolResult], topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
    """Leader, replicas and in-sync replicas of each partition, as far as the broker that was asked knows by now."""
    pattern = r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: ?(\S*)"
    shown = tool(TOPICS, "--describe", "--topic", topic, check=False).stdout
    return {
        int(partition): (
            -1 if leader == "none" else int(leader),
            [int(each) for each in replicas.split(",")],
            [int(each) for each in isr.split(",") if each],
        )
        for partition, leader, replicas, isr in re.findall(pattern, shown)
    }


def _first(tool: Callable[..., ToolResult], topic: str) -> tuple[int, list[int], list[int]]:
    return _replicas(tool, topic).get(0, (-1, [], []))


def _create(tool: Callable[..., ToolResult], topic: str, *options: str) -> None:
    assert f"Created topic {topic}." in tool(TOPICS, "--create", "--topic", topic, *options).stdout


@pytest.mark.parametrize("option", ["--bootstrap-server", "--bootstrap-controller"])
def test_kafka_metadata_quorum_shows_leader_and_voters(cluster: ClusterOfProcesses, option: str) -> None:
    address = cluster.bootstrap_servers if option == "--bootstrap-server" else cluster.bootstrap_controllers
    status = _status(run_tool(QUORUM, option, address, "describe", "--status"))
    leader = int(status["LeaderId:"])
    assert leader in cluster.node_ids
    assert int(status["LeaderEpoch:"]) > 0
    assert int(status["HighWatermark:"]) > 0
    assert status["ClusterId:"] == cluster.meta(1)["cluster.id"]
    voters = json.loads(status["CurrentVoters:"])
    endpoints = dict(zip(cluster.node_ids, cluster.bootstrap_controllers.split(","), strict=True))
    assert sorted(voters, key=lambda voter: int(voter["id"])) == [
        {
            "id": node,
            "directoryId": cluster.meta(node)["directory.id"],
            "endpoints": [f"CONTROLLER://{endpoints[node]}"],
        }
        for node in cluster.node_ids
    ]
    assert status["CurrentObservers:"] == "[]"
    rows = _replication(run_tool(QUORUM, option, address, "describe", "--replication"))
    assert {node: row["Status"] for node, row in rows.items()} == {
        node: "Leader" if node == leader else "Follower" for node in cluster.node_ids
    }
    assert {node: row["DirectoryId"] for node, row in rows.items()} == {
        node: cluster.meta(node)["directory.id"] for node in cluster.node_ids
    }
    assert all(int(row["LogEndOffset"]) > 0 and int(row["Lag"]) >= 0 for row in rows.values())
    assert all(int(row["LastCaughtUpTimestamp"]) > 0 for row in rows.values())


def test_kafka_metadata_quorum_adds_and_removes_a_controller(
    cluster: ClusterOfProcesses, tool: Callable[..., ToolResult]
) -> None:
    def statuses() -> dict[int, str]:
        return {node: row["Status"] for node, row in _replication(tool(QUORUM, "describe", "--replication")).items()}

    with cluster.extra_node(4, "controller"):
        wait_until(lambda: statuses().get(4) == "Observer", "controller 4 follows", timeout_s=CHANGE_SECONDS)
        config = ("--command-config", str(cluster.node_directory(4) / "server.properties"))
        added = tool(QUORUM, *config, "add-controller")
        directory = cluster.meta(4)["directory.id"]
        assert f"Added controller 4 with directory id {directory}" in added.stdout
        wait_until(lambda: statuses().get(4) == "Follower", "controller 4 votes", timeout_s=CHANGE_SECONDS)
        again = tool(QUORUM, *config, "add-controller", check=False)
        assert again.code == 1
        assert "DuplicateVoterException" in again.stdout + again.stderr
        wrong = ["--controller-id", "4", "--controller-directory-id", cluster.meta(1)["directory.id"]]
        refused = tool(QUORUM, "remove-controller", *wrong, check=False)
        assert refused.code == 1
        assert "VoterNotFoundException" in refused.stdout + refused.stderr
        right = ["--controller-id", "4", "--controller-directory-id", directory]
        removed = tool(QUORUM, "remove-controller", *right)
        assert f"KRaft controller 4 with directory id {directory}" in removed.stdout
        wait_until(lambda: statuses().get(4) == "Observer", "controller 4 only follows", timeout_s=CHANGE_SECONDS)
        assert sorted(node for node, status in statuses().items() if status != "Observer") == [1, 2, 3]


def test_kafka_topics_creates_replicas_on_all_brokers(
    cluster: ClusterOfProcesses, tool: Callable[..., ToolResult]
) -> None:
    _create(tool, "wide", "--partitions", "6", "--replication-factor", "3")
    wait_until(lambda: len(_replicas(tool, "wide")) == 6, "the topic is known", timeout_s=CHANGE_SECONDS)
    found = _replicas(tool, "wide")
    assert sorted(found) == list(range(6))
    for leader, replicas, isr in found.values():
        assert sorted(replicas) == sorted(isr) == [1, 2, 3]
        assert leader == replicas[0]
    assert {leader for leader, _, _ in found.values()} == set(cluster.node_ids)
    assert tool(TOPICS, "--describe", "--topic", "wide", "--under-replicated-partitions").lines == []
    refused = tool(TOPICS, "--create", "--topic", "wider", "--replication-factor", "4", check=False)
    assert refused.code == 1
    assert "Unable to replicate the partition 4 time(s)" in refused.stdout + refused.stderr


def test_a_killed_broker_leaves_and_kafka_leader_election_brings_it_back(
    cluster: ClusterOfProcesses, tool: Callable[..., ToolResult]
) -> None:
    _create(tool, "led", "--replica-assignment", "3:1:2")
    elect = partial(tool, ELECTION, "--topic", "led", "--partition", "0", "--election-type")
    cluster.kill(3)
    wait_until(lambda: _first(tool, "led")[0] in (1, 2), "another broker leads", timeout_s=CHANGE_SECONDS)
    under = "--under-replicated-partitions"
    wait_until(
        lambda: tool(TOPICS, "--describe", "--topic", "led", under).lines, "a replica is out", timeout_s=CHANGE_SECONDS
    )
    refused = elect("preferred", check=False)
    assert refused.code == 1
    assert "PreferredLeaderNotAvailableException" in refused.stdout + refused.stderr
    cluster.start_again(3)
    wait_until(lambda: sorted(_first(tool, "led")[2]) == [1, 2, 3], "broker 3 is in sync", timeout_s=CHANGE_SECONDS)
    elected = elect("preferred")
    assert "Successfully completed leader election (PREFERRED) for partitions led-0" in elected.stdout
    wait_until(lambda: _first(tool, "led")[0] == 3, "broker 3 leads again", timeout_s=CHANGE_SECONDS)
    assert "Valid replica already elected for partitions led-0" in elect("preferred").stdout
    assert "Valid replica already elected for partitions led-0" in elect("unclean").stdout


def _plan(path: Path, topic: str, *replicas: int) -> list[str]:
    entry = {"topic": topic, "partition": 0, "replicas": list(replicas), "log_dirs": ["any"] * len(replicas)}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return ["--reassignment-json-file", str(path)]


def test_kafka_reassign_partitions_moves_and_verifies(
    cluster: ClusterOfProcesses, tool: Callable[..., ToolResult], tmp_path: Path
) -> None:
    _create(tool, "moved", "--replica-assignment", "1:2")
    file = _plan(tmp_path / "plan.json", "moved", 2, 3)
    started = tool(REASSIGN, "--execute", *file, "--throttle", "10000000").stdout
    assert "Current partition replica assignment" in started
    assert "The inter-broker throttle limit was set to 10000000 B/s" in started
    assert "Successfully started partition reassignment for moved-0" in started
    verify = partial(tool, REASSIGN, "--verify", *file)
    done = "Reassignment of partition moved-0 is completed."
    wait_until(lambda: done in verify().stdout, "the partition has moved", timeout_s=CHANGE_SECONDS)
    wait_until(lambda: _first(tool, "moved")[1] == [2, 3], "all brokers know the replicas", timeout_s=CHANGE_SECONDS)
    assert sorted(_first(tool, "moved")[2]) == [2, 3]
    assert tool(REASSIGN, "--list").lines == ["No partition reassignments found."]
    shown = tool("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "moved").stdout
    assert "throttled" not in shown


def test_kafka_reassign_partitions_cancels(
    cluster: ClusterOfProcesses, tool: Callable[..., ToolResult], tmp_path: Path
) -> None:
    _create(tool, "stuck", "--replica-assignment", "1:2")
    with SyncProducer(cluster.bootstrap_servers) as producer:
        producer.send_many("stuck", [(None, b"x" * 100_000)] * 100)
    file = _plan(tmp_path / "plan.json", "stuck", 1, 3)
    # So little a second that it does not end while the test runs.
    started = tool(REASSIGN, "--execute", *file, "--throttle", "1000").stdout
    assert "Successfully started partition reassignment for stuck-0" in started
    listed = tool(REASSIGN, "--list").stdout
    assert re.search(r"stuck-0: replicas: 1,3,2\. adding: 3\. removing: 2\.", listed), listed
    assert "still in progress" in tool(REASSIGN, "--verify", *file).stdout
    cancelled = tool(REASSIGN, "--cancel", *file).stdout
    assert "Successfully cancelled partition reassignment for: stuck-0" in cancelled
    wait_until(lambda: _first(tool, "stuck")[1] == [1, 2], "all brokers know the replicas", timeout_s=CHANGE_SECONDS)
    assert tool(REASSIGN, "--list").lines == ["No partition reassignments found."]


def test_kafka_features_shows_lowers_and_raises_a_level(tool: Callable[..., ToolResult]) -> None:
    def finalized() -> dict[str, str]:
        pattern = r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)"
        return dict(re.findall(pattern, tool(FEATURES, "describe").stdout))

    before = finalized()
    assert (before["metadata.version"], before["kraft.version"]) == ("4.3-IV0", "1")
    assert before["transaction.version"] == "2"
    lowered = tool(FEATURES, "downgrade", "--feature", "transaction.version=1").stdout
    assert "transaction.version was downgraded to 1." in lowered
    # Each describe may ask another broker, which is a moment behind.
    wait_until(lambda: finalized()["transaction.version"] == "1", "the level is lower", timeout_s=CHANGE_SECONDS)
    assert (
        "transaction.version was upgraded to 2."
        in tool(FEATURES, "upgrade", "--feature", "transaction.version=2").stdout
    )
    wait_until(lambda: finalized() == before, "the level is as before", timeout_s=CHANGE_SECONDS)
    refused = tool(FEATURES, "upgrade", "--feature", "transaction.version=9", check=False)
    assert refused.code == 1
    assert "Could not upgrade transaction.version to 9" in refused.stdout + refused.stderr


def test_kafka_cluster_reports_endpoints_and_forgets_a_broker(
    cluster: ClusterOfProcesses, tool: Callable[..., ToolResult]
) -> None:
    def states() -> dict[int, str]:
        rows = [line.split() for line in tool(CLUSTER, "list-endpoints", "--include-fenced-brokers").lines[1:]]
        return {int(row[0]): row[4] for row in rows}

    assert f"Cluster ID: {cluster.meta(1)['cluster.id']}" in tool(CLUSTER, "cluster-id").stdout
    extra = cluster.extra_node(5, "broker")
    with extra:
        wait_until(lambda: states().get(5) == "unfenced", "broker 5 is there", timeout_s=CHANGE_SECONDS)
    wait_until(lambda: states()[5] == "fenced", "broker 5 is gone", timeout_s=CHANGE_SECONDS)
    assert "Broker 5 is no longer registered." in tool(CLUSTER, "unregister", "--id", "5").stdout
    wait_until(lambda: sorted(states()) == [1, 2, 3], "all brokers forgot it", timeout_s=CHANGE_SECONDS)
    unknown = tool(CLUSTER, "unregister", "--id", "5", check=False)
    assert "BrokerIdNotRegisteredException" in unknown.stdout + unknown.stderr
