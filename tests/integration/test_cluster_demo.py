"""A demo cluster of three nodes: it serves, survives a killed node, takes it back, and stops cleanly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crabka.cli.cluster.local_layout import find_homes
from crabka.cli.cluster.local_processes import running_pid
from crabka.cli.doctor.checks import quorum as quorum_check
from crabka.cli.main import execute
from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.producer import SyncProducer
from crabka.errors import OperationError
from tests.support.clusters.processes import CrabkaCluster
from tests.support.nodes.process import wait_until

CHANGE_SECONDS = 120.0
# A voter that does not fetch for so long is reported here, so that the test does not wait for it.
SILENT_MS = 1_000
STOPPED_NODE = {("quorum", "error", "3"), ("partitions", "warning", "3"), ("partitions", "warning", "t-0")}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[CrabkaCluster]:
    with CrabkaCluster(tmp_path / "cluster") as running:
        yield running


def test_a_killed_node_is_replaced_and_comes_back(
    cluster: CrabkaCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_check, "SILENT_MS", SILENT_MS)
    reported = cluster.said()
    assert reported["bootstrap.servers"] == cluster.bootstrap_servers
    pids = {home.node_id: running_pid(home) for home in find_homes(str(cluster.directory))}
    assert {node: reported[f"node.{node}.pid"] for node in cluster.node_ids} == {
        node: str(pid) for node, pid in pids.items()
    }
    with SyncAdmin(cluster.bootstrap_servers) as admin, SyncProducer(cluster.bootstrap_servers) as producer:
        # Each broker learns of the others a moment after they are there.
        wait_until(lambda: _brokers(admin) == [1, 2, 3], "all brokers are known", timeout_s=CHANGE_SECONDS)
        quorum = admin.cluster.describe_quorum()
        assert sorted(voter.node_id for voter in quorum.voters) == [1, 2, 3]
        admin.create_topics([NewTopic("t", assignments={0: [3, 1, 2]})])
        assert len(producer.send_many("t", [(None, b"before")])) == 1
        cluster.kill(3)
        wait_until(lambda: _leader(admin) in (1, 2), "another broker leads", timeout_s=CHANGE_SECONDS)
        assert len(producer.send_many("t", [(None, b"meanwhile")])) == 1
        wait_until(lambda: 3 in admin.cluster.describe(include_fenced=True).fenced, "broker 3 is fenced")
        wait_until(lambda: _problems(capsys, cluster) >= STOPPED_NODE, "the doctor says so", timeout_s=CHANGE_SECONDS)
        cluster.start_again(3)
        wait_until(lambda: sorted(_isr(admin)) == [1, 2, 3], "broker 3 is in sync", timeout_s=CHANGE_SECONDS)


def test_a_cluster_keeps_its_data_and_its_ports(tmp_path: Path) -> None:
    with CrabkaCluster(tmp_path) as first, SyncAdmin(first.bootstrap_servers) as admin:
        bootstrap = first.bootstrap_servers
        admin.create_topics([NewTopic("kept", 3, 3)])
    assert all(running_pid(home) is None for home in find_homes(str(tmp_path)))
    with CrabkaCluster(tmp_path) as second, SyncAdmin(second.bootstrap_servers) as admin:
        assert second.bootstrap_servers == bootstrap
        assert len(admin.describe_topics(["kept"])["kept"].partitions) == 3


def _problems(capsys: pytest.CaptureFixture[str], cluster: CrabkaCluster) -> set[tuple[str, str, str]]:
    """Return the errors and warnings of `crabka doctor` about single nodes and partitions."""
    capsys.readouterr()
    assert execute(["doctor", "--json", "--bootstrap", cluster.bootstrap_servers]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    return {(each["check"], each["severity"], place) for each in found for place in each["places"]}


def _brokers(admin: SyncAdmin) -> list[int]:
    return sorted(broker.node_id for broker in admin.cluster.describe().brokers)


def _leader(admin: SyncAdmin) -> int:
    partition = _partition(admin)
    return -1 if partition is None else partition.leader


def _isr(admin: SyncAdmin) -> tuple[int, ...]:
    partition = _partition(admin)
    return () if partition is None else partition.isr


def _partition(admin: SyncAdmin) -> Any:
    """Return the partition as some broker knows it, None where the topic is not known yet."""
    try:
        return admin.describe_topics(["t"])["t"].partitions[0]
    except OperationError:
        return None
