"""Our own commands against a cluster of three nodes, of Crabka or of Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crabka.cli.main import execute
from tests.support.clients.target import target_is_jvm
from tests.support.clusters.processes import ClusterOfProcesses, target_cluster
from tests.support.nodes.process import wait_until

CHANGE_SECONDS = 120.0
Command = Callable[..., Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfProcesses]:
    with target_cluster(tmp_path_factory.mktemp("cluster"), is_jvm=target_is_jvm()) as running:
        yield running


@pytest.fixture
def crabka(cluster: ClusterOfProcesses, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process; return what it printed as JSON."""

    def run(*arguments: str, bootstrap: tuple[str, str] | None = None, code: int = 0) -> Any:
        where = bootstrap or ("--bootstrap", cluster.bootstrap_servers)
        capsys.readouterr()
        assert execute([*arguments, *where, "--json"]) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        return json.loads(captured.out) if code == 0 else captured.err

    return run


def _states(crabka: Command) -> dict[int, str]:
    return {row["broker"]: row["state"] for row in crabka("brokers")}


def _replicas(crabka: Command, topic: str) -> tuple[int, list[int], list[int]]:
    (row,) = crabka("topics", "describe", topic)
    return row["leader"], row["replicas"], row["isr"]


def test_brokers_and_quorum_are_shown(cluster: ClusterOfProcesses, crabka: Command) -> None:
    wait_until(lambda: list(_states(crabka).values()) == ["active"] * 3, "all brokers serve", timeout_s=CHANGE_SECONDS)
    controllers = ("--bootstrap-controller", cluster.bootstrap_controllers)
    for bootstrap in (None, controllers):
        quorum = crabka("quorum", "describe", bootstrap=bootstrap)
        assert quorum["cluster"] == cluster.meta(1)["cluster.id"]
        voters = {node["node"]: node for node in quorum["nodes"]}
        assert sorted(voters) == [1, 2, 3]
        assert voters[quorum["leader"]]["status"] == "leader"
        assert {node: row["directory"] for node, row in voters.items()} == {
            node: cluster.meta(node)["directory.id"] for node in cluster.node_ids
        }
    rows = {row["broker"]: row for row in crabka("brokers")}
    assert rows[quorum["leader"]]["quorum"] == "leader"
    assert all(row["log_dirs"] == [str(cluster.node_directory(node) / "data")] for node, row in rows.items())


def test_a_controller_is_added_and_removed(cluster: ClusterOfProcesses, crabka: Command) -> None:
    def statuses() -> dict[int, str]:
        return {row["node"]: row["status"] for row in crabka("quorum", "describe", "--replication")}

    with cluster.extra_node(4, "controller"):
        wait_until(lambda: statuses().get(4) == "observer", "controller 4 follows", timeout_s=CHANGE_SECONDS)
        config = str(cluster.node_directory(4) / "server.properties")
        added = crabka("quorum", "add", "--config", config)
        assert (added["node"], added["directory"]) == (4, cluster.meta(4)["directory.id"])
        wait_until(lambda: statuses().get(4) == "follower", "controller 4 votes", timeout_s=CHANGE_SECONDS)
        assert "crabka: voter 4:" in crabka("quorum", "add", "--config", config, code=1)
        controllers = ("--bootstrap-controller", cluster.bootstrap_controllers)
        remove = ("quorum", "remove", "--controller-id", "4", "--directory-id")
        assert "crabka: voter 4:" in crabka(*remove, cluster.meta(1)["directory.id"], bootstrap=controllers, code=1)
        crabka(*remove, cluster.meta(4)["directory.id"], bootstrap=controllers)
        wait_until(lambda: statuses().get(4) == "observer", "controller 4 only follows", timeout_s=CHANGE_SECONDS)


def test_replicas_move_and_leaders_come_back(cluster: ClusterOfProcesses, crabka: Command) -> None:
    crabka("topics", "create", "moved", "--partitions", "1", "--replicas", "2")
    (target,) = crabka("partitions", "reassign", "--topic", "moved", "--replicas", "3,1")["partitions"]
    assert target == {"topic": "moved", "partition": 0, "replicas": [3, 1]}
    crabka("partitions", "reassign", "--topic", "moved", "--replicas", "3,1", "--throttle", "10MB", "--wait", "-y")
    assert _replicas(crabka, "moved")[1] == [3, 1]
    settings = {row["key"] for row in crabka("configs", "describe", "topic", "moved")}
    assert not any("throttled" in key for key in settings)
    crabka("partitions", "reassign", "--topics", "moved", "--brokers", "1,2", "--wait", "-y")
    assert sorted(_replicas(crabka, "moved")[1]) == [1, 2]
    crabka("partitions", "reassign", "--topic", "moved", "--replicas", "3,1,2", "--wait", "-y")
    cluster.kill(3)
    wait_until(lambda: _states(crabka).get(3) == "fenced", "broker 3 is fenced", timeout_s=CHANGE_SECONDS)
    assert _replicas(crabka, "moved")[0] in (1, 2)
    crabka("topics", "create", "stuck", "--partitions", "1", "--replicas", "2")
    crabka("partitions", "reassign", "--topic", "stuck", "--replicas", "3", "-y")
    (ongoing,) = crabka("partitions", "reassign", "--list")
    assert (ongoing["topic"], ongoing["adding"]) == ("stuck", [3])
    assert crabka("partitions", "reassign", "--cancel", "--topic", "stuck") == [ongoing]
    assert crabka("partitions", "reassign", "--list") == []
    cluster.start_again(3)
    wait_until(lambda: sorted(_replicas(crabka, "moved")[2]) == [1, 2, 3], "3 is in sync", timeout_s=CHANGE_SECONDS)
    assert crabka("partitions", "elect-leaders", "--topic", "moved") == [
        {"topic": "moved", "partition": 0, "result": "elected"}
    ]
    wait_until(lambda: _replicas(crabka, "moved")[0] == 3, "broker 3 leads again")
