"""`crabka log-dirs` against a node with three log dirs, and against brokers that answer as a test says."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from crabka.cli.log_dirs.commands import parse_replica
from crabka.clients.sync.producer import SyncProducer
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clusters.loopback import loopback_cluster
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until
from tests.support.wire.ports import free_port
from tests.unit.cli.conftest import RunCommand


class DiskNode(NamedTuple):
    """A node and its log dirs."""

    bootstrap: str
    dirs: list[str]


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskNode]:
    """A node that all tests here share."""
    root = tmp_path_factory.mktemp("disks")
    dirs = [str(root / name) for name in ("a", "b", "c")]
    with CrabkaProcess(root / "node", {"log.dirs": ",".join(dirs)}) as node:
        yield DiskNode(node.bootstrap_servers, dirs)


@pytest.fixture
def on_disks(crabka: RunCommand, disks: DiskNode) -> RunCommand:
    """Run a command against that node."""
    return lambda *arguments: crabka("log-dirs", *arguments, "--bootstrap", disks.bootstrap)


def test_dirs_are_listed_with_the_room_that_the_file_system_has(on_disks: RunCommand, disks: DiskNode) -> None:
    listed = on_disks("list", "--json").json
    assert [row["dir"] for row in listed["dirs"]] == disks.dirs
    assert listed["moves"] == []
    for row in listed["dirs"]:
        status = os.statvfs(row["dir"])
        assert row["state"] == "online"
        assert row["total_bytes"] == status.f_blocks * status.f_frsize
        assert 0 < row["free_bytes"] <= row["total_bytes"]
    lines = on_disks("list", "--broker", "1").out.splitlines()
    assert lines[0].startswith("broker\tdir\tstate\tpartitions")
    assert len(lines) == 4


def test_people_get_a_table(on_disks: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "PARTITIONS" in on_disks("list").out


def test_a_cordoned_dir_gets_nothing_until_it_is_uncordoned(
    crabka: RunCommand, on_disks: RunCommand, disks: DiskNode
) -> None:
    for path in disks.dirs[1:]:
        assert on_disks("cordon", path).code == 0
    states = [row["state"] for row in on_disks("list", "--json").json["dirs"]]
    assert states == ["online", "cordoned", "cordoned"]
    assert crabka("topics", "create", "fenced-in", "-p", "4", "--bootstrap", disks.bootstrap).code == 0
    assert len(list(Path(disks.dirs[0]).glob("fenced-in-*"))) == 4
    assert on_disks("uncordon", disks.dirs[1], "--json").json == {"broker": 1, "cordoned": [disks.dirs[2]]}
    assert on_disks("uncordon", disks.dirs[2], "--broker", "1").code == 0
    assert {row["state"] for row in on_disks("list", "--json").json["dirs"]} == {"online"}


def test_a_dir_that_no_broker_has_cannot_be_cordoned(on_disks: RunCommand) -> None:
    refused = on_disks("cordon", "/elsewhere")
    assert refused.code == 2
    assert "broker 1 has no log dir /elsewhere" in refused.err


def test_an_even_node_needs_no_moves(on_disks: RunCommand) -> None:
    assert on_disks("balance").out == "the log dirs are balanced\n"
    assert on_disks("balance", "--json").json == []
    assert on_disks("balance", "--wait").code == 2


def test_replicas_are_moved_and_evened_out(crabka: RunCommand, on_disks: RunCommand, disks: DiskNode) -> None:
    assert crabka("topics", "create", "movable", "-p", "3", "--bootstrap", disks.bootstrap).code == 0
    with SyncProducer(disks.bootstrap) as producer:
        for partition in range(3):
            producer.send("movable", b"x" * 10_000, partition=partition).result(120)
    for partition in range(3):
        assert on_disks("move", f"movable-{partition}", "--to", disks.dirs[0], "--wait").code == 0
    assert {path.name for path in Path(disks.dirs[0]).glob("movable-?")} == {"movable-0", "movable-1", "movable-2"}
    planned = on_disks("balance", "--json").json
    assert [row["to"] for row in planned] == disks.dirs[1:]
    assert on_disks("balance", "--execute", "--wait").code == 0
    assert [len(list(Path(path).glob("movable-?"))) for path in disks.dirs] == [1, 1, 1]
    assert "are balanced" in on_disks("balance").out


class Disks:
    """Answers of a broker with two log dirs whose replicas move at once, or not at all."""

    def __init__(self, path: str = "/a") -> None:
        self.places = {0: path, 1: path}
        self.moves: list[tuple[str, int]] = []
        self.code = ErrorCode.none

    def describe(self, request: ReceivedRequest) -> Any:
        new = request.types.new
        results = []
        for path in ("/a", "/b"):
            replicas = [
                new(
                    "DescribeLogDirsPartition",
                    partition_index=index,
                    partition_size=100,
                    offset_lag=0,
                    is_future_key=False,
                )
                for index, place in self.places.items()
                if place == path
            ]
            topics = [new("DescribeLogDirsTopic", name="t", partitions=replicas)] if replicas else []
            results.append(new("DescribeLogDirsResult", error_code=ErrorCode.none, log_dir=path, topics=topics))
        return request.types.message(throttle_time=0, error_code=ErrorCode.none, results=results)

    def alter(self, request: ReceivedRequest) -> Any:
        new = request.types.new
        rows = []
        for each in request.body.dirs:
            for topic in each.topics:
                for index in topic.partitions:
                    self.moves.append((each.path, index))
                    if self.code is ErrorCode.none:
                        self.places[index] = each.path
                    rows.append(new("AlterReplicaLogDirPartitionResult", partition_index=index, error_code=self.code))
        topic_row = new("AlterReplicaLogDirTopicResult", topic_name="t", partitions=rows)
        return request.types.message(throttle_time=0, results=[topic_row])


class Scripted(NamedTuple):
    """A command line against brokers that answer as a test says."""

    run: RunCommand
    disks: Disks


@pytest.fixture
def scripted(crabka: RunCommand) -> Iterator[Scripted]:
    disks = Disks()
    with loopback_cluster((1, 2)) as (cluster, bootstrap):
        cluster.create_topic("t", 2)

        def describe(request: ReceivedRequest) -> Any:
            new = request.types.new
            brokers = [
                new("DescribeClusterBroker", broker_id=node, host=host, port=port, rack=None, is_fenced=False)
                for node, (host, port) in cluster.addresses.items()
            ]
            return request.types.message(
                throttle_time=0, error_code=ErrorCode.none, cluster_id="c", controller_id=1, brokers=brokers
            )

        for broker in cluster.brokers.values():
            broker.answers[ApiKey.DESCRIBE_CLUSTER] = describe
            broker.answers[ApiKey.DESCRIBE_LOG_DIRS] = disks.describe
            broker.answers[ApiKey.ALTER_REPLICA_LOG_DIRS] = disks.alter
        yield Scripted(lambda *arguments: crabka("log-dirs", *arguments, "--bootstrap", bootstrap), disks)


def test_a_replica_is_moved(scripted: Scripted) -> None:
    moved = scripted.run("move", "t-0", "--to", "/b", "--broker", "1", "--wait")
    assert (moved.code, moved.out) == (0, "t-0 lies in /b of broker 1\n")
    assert scripted.disks.moves == [("/b", 0)]
    begun = scripted.run("move", "t:1", "--to", "/b", "--json").json
    assert begun == {"broker": 2, "topic": "t", "partition": 1, "to": "/b", "done": False}


def test_a_move_of_what_is_not_there_says_what_becomes_of_it(scripted: Scripted) -> None:
    scripted.disks.code = ErrorCode.replica_not_available
    refused = scripted.run("move", "t-0", "--to", "/b", "--broker", "2")
    assert refused.code != 0
    assert "broker 2 has no replica of t-0; a new one will be placed in /b" in refused.err


def test_a_refused_move_fails(scripted: Scripted) -> None:
    scripted.disks.code = ErrorCode.log_dir_not_found
    refused = scripted.run("move", "t-0", "--to", "/nowhere")
    assert refused.code != 0
    assert "log_dir_not_found" in refused.err


def test_a_partition_that_is_not_there_cannot_move(scripted: Scripted) -> None:
    assert "t has no partition 9, it has 2" in scripted.run("move", "t-9", "--to", "/b").err


def test_a_dir_of_several_brokers_needs_a_broker(scripted: Scripted) -> None:
    refused = scripted.run("cordon", "/a")
    assert refused.code == 2
    assert "--broker must name" in refused.err


def test_a_plan_is_printed_before_it_is_carried_out(scripted: Scripted) -> None:
    planned = scripted.run("balance", "--broker", "1")
    assert planned.out.splitlines()[1:] == ["1\tt\t0\t/a\t/b\t100"]
    assert "--execute" in planned.err
    assert scripted.disks.moves == []
    assert scripted.run("balance", "--broker", "1", "--execute", "--wait").code == 0
    assert scripted.disks.moves == [("/b", 0)]
    assert "are balanced" in scripted.run("balance", "--broker", "1").out


@pytest.mark.parametrize("text", ["t", "-1", "t-x", "t:"])
def test_a_replica_needs_topic_and_partition(text: str) -> None:
    with pytest.raises(ConfigError, match="TOPIC-PARTITION"):
        parse_replica(text)


def test_names_of_topics_may_have_dashes() -> None:
    assert parse_replica("a-b-3") == parse_replica("a-b:3") == TopicPartition("a-b", 3)


def test_a_check_is_triggered_and_shown(crabka: RunCommand, tmp_path: Path) -> None:
    port = free_port()
    with CrabkaProcess(tmp_path / "node", {"crabka.http.listener": f"127.0.0.1:{port}"}) as node:
        assert crabka("topics", "create", "t", "--bootstrap", node.bootstrap_servers).code == 0
        with SyncProducer(node.bootstrap_servers) as producer:
            producer.send("t", b"v").result(120)
        triggered = crabka("log-dirs", "check", "--now", "--bootstrap", node.bootstrap_servers, "--json")
        assert triggered.json["triggered"]

        def state() -> Any:
            return crabka("log-dirs", "check", "--bootstrap", node.bootstrap_servers, "--json").json["brokers"][0]

        found = wait_until(lambda: (row := state())["last_full_pass_timestamp"] and row, "the logs are checked")
        assert found["damaged_ranges"] == 0
        assert found["logs"] == found["logs_checked"]
    assert "no damage" in crabka("log-dirs", "check", "--dir", str(node.data_dir)).out
    (segment,) = (node.data_dir / "t-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[65] ^= 1
    segment.write_bytes(content)
    result = crabka("log-dirs", "check", "--dir", str(node.data_dir))
    assert result.code == 1
    assert str(segment) in result.out
