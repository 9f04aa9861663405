"""`crabka quorum`: what is shown, and what is asked of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from crabka.cli.cluster.quorum import replica_rows, status_row
from crabka.clients.admin.cluster_types import DescribedQuorum, QuorumReplica
from crabka.config.properties import format_properties
from crabka.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from crabka.log.dirs.log_dir import LogDir
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime import real_runtime
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clusters.loopback import loopback_cluster
from tests.support.clusters.memory import MemoryCluster
from tests.unit.cli.conftest import RunCommand

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg"


def _replica(node: int, end: int, caught_up_ms: int) -> QuorumReplica:
    return QuorumReplica(node, UUID(int=node), end, caught_up_ms, caught_up_ms)


QUORUM = DescribedQuorum(2, 7, 90, (_replica(1, 95, 400), _replica(2, 100, 1000)), (_replica(9, 90, 300),), {})


def test_the_voter_farthest_behind_gives_the_lag() -> None:
    assert status_row(QUORUM) == {"leader": 2, "epoch": 7, "high_watermark": 90, "max_lag": 5, "max_lag_ms": 600}
    even = QUORUM._replace(voters=(_replica(2, 100, 1000), _replica(1, 100, 400)))
    assert status_row(even)["max_lag_ms"] == 0


def test_what_is_not_known_is_left_open() -> None:
    lost = status_row(QUORUM._replace(leader_id=-1))
    assert (lost["max_lag"], lost["max_lag_ms"]) == (None, None)
    old = status_row(QUORUM._replace(voters=(_replica(1, 95, -1), _replica(2, 100, -1))))
    assert (old["max_lag"], old["max_lag_ms"]) == (5, None)
    (row,) = replica_rows(DescribedQuorum(1, 1, 1, (QuorumReplica(1, ZERO_UUID, 1, -1, -1),), (), {}), now_ms=5)
    assert (row["directory"], row["last_fetch"]) == (None, None)


def test_the_leader_comes_first_and_observers_last() -> None:
    rows = replica_rows(QUORUM, now_ms=1500)
    assert [(row["node"], row["status"], row["lag"]) for row in rows] == [
        (2, "leader", 0),
        (1, "follower", 5),
        (9, "observer", 10),
    ]
    assert rows[0]["last_caught_up"] == "500ms ago"


class QuorumOfTest:
    """One voter; notes what it is asked to change."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.changes: list[tuple[Any, ...]] = []
        answers = cluster.brokers[1].answers
        answers[ApiKey.DESCRIBE_CLUSTER] = self.describe_cluster
        answers[ApiKey.DESCRIBE_QUORUM] = self.describe
        answers[ApiKey.ADD_RAFT_VOTER] = self.add
        answers[ApiKey.REMOVE_RAFT_VOTER] = self.remove
        self.cluster = cluster

    def describe_cluster(self, request: ReceivedRequest) -> Any:
        host, port = self.cluster.addresses[1]
        node = request.types.new("DescribeClusterBroker", broker_id=1, host=host, port=port, rack=None, is_fenced=False)
        return request.types.message(
            throttle_time=0, error_code=ErrorCode.none, cluster_id=CLUSTER_ID, controller_id=1, brokers=[node]
        )

    def describe(self, request: ReceivedRequest) -> Any:
        new = request.types.new
        state = new("ReplicaState", replica_id=1, replica_directory_id=uuid_from_text(DIRECTORY_ID), log_end_offset=4)
        partition = new(
            "PartitionData",
            partition_index=0,
            error_code=ErrorCode.none,
            error_message=None,
            leader_id=1,
            leader_epoch=3,
            high_watermark=4,
            current_voters=[state],
            observers=[],
        )
        node = new("Node", node_id=1, listeners=[new("Listener", name="CONTROLLER", host="h", port=9093)])
        topic = new("TopicData", topic_name="__cluster_metadata", partitions=[partition])
        return request.types.message(error_code=ErrorCode.none, error_message=None, topics=[topic], nodes=[node])

    def add(self, request: ReceivedRequest) -> Any:
        body = request.body
        listeners = [(each.name, each.host, each.port) for each in body.listeners]
        self.changes.append((body.cluster_id, body.voter_id, uuid_to_text(body.voter_directory_id), listeners))
        return request.types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None)

    def remove(self, request: ReceivedRequest) -> Any:
        self.changes.append((request.body.voter_id, uuid_to_text(request.body.voter_directory_id)))
        return request.types.message(throttle_time=0, error_code=ErrorCode.voter_not_found, error_message="no voter")


@pytest.fixture
def quorum() -> Iterator[tuple[QuorumOfTest, str]]:
    with loopback_cluster() as (cluster, bootstrap):
        yield QuorumOfTest(cluster), bootstrap


@pytest.mark.parametrize("option", ["--bootstrap", "--bootstrap-controller"])
def test_the_quorum_is_shown(crabka: RunCommand, quorum: tuple[QuorumOfTest, str], option: str) -> None:
    where = (option, quorum[1])
    shown = crabka("quorum", "describe", *where)
    assert shown.out.splitlines() == [
        "cluster\tleader\tepoch\thigh_watermark\tmax_lag\tmax_lag_ms",
        f"{CLUSTER_ID}\t1\t3\t4\t0\t0",
        "",
        "node\tdirectory\tendpoints\tstatus",
        f"1\t{DIRECTORY_ID}\tCONTROLLER://h:9093\tleader",
    ]
    rows = crabka("quorum", "describe", "--replication", *where).out.splitlines()
    assert rows == [
        "node\tdirectory\tlog_end\tlag\tlast_fetch\tlast_caught_up\tstatus",
        f"1\t{DIRECTORY_ID}\t4\t0\t\t\tleader",
    ]
    assert crabka("quorum", "describe", *where, "--json").json["nodes"][0]["status"] == "leader"


def _properties(tmp_path: Path, **changes: str) -> str:
    properties = {
        "process.roles": "controller",
        "node.id": "4",
        "listeners": "CONTROLLER://:9093",
        "advertised.listeners": "CONTROLLER://four.example:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "one.example:9093",
        "log.dirs": str(tmp_path / "data"),
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    path = tmp_path / "server.properties"
    path.write_text(format_properties(properties))
    return str(path)


def test_a_controller_is_added_as_its_directory_and_properties_say(
    crabka: RunCommand, quorum: tuple[QuorumOfTest, str], tmp_path: Path
) -> None:
    reported, bootstrap = quorum
    path = _properties(tmp_path)
    add = ("quorum", "add", "--config", path, "--bootstrap", bootstrap)
    unformatted = crabka(*add)
    assert (unformatted.code, "is not formatted" in unformatted.err) == (2, True)
    crabka("format", "--config", path, "--no-initial-controllers", "--cluster-id", CLUSTER_ID)
    added = crabka(*add)
    assert (added.code, added.err) == (0, "")
    ((cluster_id, node, directory, listeners),) = reported.changes
    assert (cluster_id, node, listeners) == (CLUSTER_ID, 4, [("CONTROLLER", "four.example", 9093)])
    assert added.out == f"controller 4 with directory {directory} is a voter now\n"


def test_only_a_controller_of_its_own_directory_is_added(crabka: RunCommand, tmp_path: Path) -> None:
    path = _properties(tmp_path)
    crabka("format", "--config", path, "--no-initial-controllers", "--cluster-id", CLUSTER_ID)
    other = crabka("quorum", "add", "--config", _properties(tmp_path, node_id="5"))
    assert "belongs to node 4, not to 5" in other.err
    broker = _properties(
        tmp_path, process_roles="broker", listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://h:9092"
    )
    assert "has no controller" in crabka("quorum", "add", "--config", broker).err


def test_a_voter_is_removed_by_both_ids(crabka: RunCommand, quorum: tuple[QuorumOfTest, str]) -> None:
    reported, bootstrap = quorum
    remove = ("quorum", "remove", "--bootstrap", bootstrap, "--controller-id", "3")
    refused = crabka(*remove, "--directory-id", DIRECTORY_ID)
    assert refused == (1, "", "crabka: voter 3: no voter\n")
    assert reported.changes == [(3, DIRECTORY_ID)]
    bad = crabka(*remove, "--directory-id", "short")
    assert (bad.code, "--directory-id: 'short' is not" in bad.err) == (2, True)


def _damaged(tmp_path: Path) -> Path:
    """A metadata directory of which quorum-state holds an epoch that no int32 holds."""
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={CLUSTER_ID}\n")
    state = '{"leaderId":-1,"leaderEpoch":2147483648,"votedId":-1,"data_version":1}'
    (directory / "quorum-state").write_text(state)
    return directory / "quorum-state"


def test_a_repair_shows_its_plan_and_acts_only_when_asked_to(crabka: RunCommand, tmp_path: Path) -> None:
    path = _damaged(tmp_path)
    before = path.read_text()
    shown = crabka("quorum", "repair", "--data-dir", str(tmp_path))
    assert (shown.code, path.read_text()) == (0, before)
    assert "2147483648" in shown.out
    assert "--execute" in shown.out
    done = crabka("quorum", "repair", "--data-dir", str(tmp_path), "--execute")
    assert "done" in done.out
    assert '"leaderEpoch":1000000' in path.read_text()
    assert "are intact" in crabka("quorum", "repair", "--data-dir", str(tmp_path)).out


def test_a_repair_refuses_what_is_in_use_or_not_there(crabka: RunCommand, tmp_path: Path) -> None:
    _damaged(tmp_path)
    runtime = real_runtime()
    lock = LogDir(runtime.fs, str(tmp_path))
    lock.open()
    try:
        assert "locked" in crabka("quorum", "repair", "--data-dir", str(tmp_path)).err
    finally:
        lock.close()
        runtime.threads.close()
    assert "does not exist" in crabka("quorum", "repair", "--data-dir", str(tmp_path / "none")).err
    assert "name the directory" in crabka("quorum", "repair").err
