"""`crabka partitions` against a node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clusters.loopback import loopback_cluster
from tests.support.clusters.memory import MemoryCluster
from tests.unit.cli.conftest import RunCommand


def test_partitions_of_one_broker_are_where_they_shall_be(on_broker: RunCommand, tmp_path: Path) -> None:
    on_broker("topics", "create", "placed", "-p", "2")
    move = ("partitions", "reassign")
    done = on_broker(*move, "--topic", "placed", "--replicas", "1", "--wait", "--throttle", "1KB", "--execute")
    assert done.out.splitlines() == ["topic\tpartition\treplicas\ttarget", "placed\t0\t1\t1", "placed\t1\t1\t1"]
    planned = on_broker(*move, "--topics", "placed", "--brokers", "1", "--json")
    expected = [{"topic": "placed", "partition": index, "replicas": [1]} for index in (0, 1)]
    assert planned.json == {"version": 1, "partitions": expected}
    file = tmp_path / "plan.json"
    file.write_text(planned.out)
    assert on_broker(*move, "--file", str(file), "--wait", "--execute").code == 0
    assert on_broker(*move, "--file", str(file)).err == "nothing was changed; --execute carries out this plan\n"
    assert on_broker(*move, "--list").out == "topic\tpartition\treplicas\tadding\tremoving\n"
    assert on_broker(*move, "--cancel", "--json").json == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "name what to move: --file"),
        (("--topic", "t"), "--topic and --replicas go together"),
        (("--replicas", "1"), "--topic and --replicas go together"),
        (("--topics", "t"), "--topics and --brokers go together"),
        (("--topic", "t", "--topics", "u"), "--file, --topic and --topics exclude each other"),
        (("--partition", "1"), "--partition needs --topic"),
        (("--topic", "t", "--replicas", "1,x"), "--replicas 1,x: not ids of nodes"),
        (("--topics", "t", "--brokers", "1,1"), "--brokers 1,1: a node is named twice"),
        (("--topic", "t", "--replicas", "1", "--bootstrap-controller", "h:1"), "goes with --list and --cancel only"),
        (("--topic", "t", "--replicas", "1", "--dry-run", "--execute"), "exclude each other"),
        (("--file", "none.json"), "cannot read none.json"),
        (("--topic", "one-partition", "--partition", "5", "--replicas", "1"), "has no partition 5, it has 1"),
        (("--topics", "one-partition", "--brokers", "1,7"), "broker 7 is not there: the brokers are 1"),
    ],
)
def test_bad_options_of_reassign_are_refused(on_broker: RunCommand, options: tuple[str, ...], message: str) -> None:
    if "one-partition" in options:
        on_broker("topics", "create", "one-partition")
    refused = on_broker("partitions", "reassign", *options)
    assert refused.code == 2
    assert message in refused.err


def test_a_file_must_name_partitions_that_exist(on_broker: RunCommand, tmp_path: Path) -> None:
    on_broker("topics", "create", "short")
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"partitions": [{"topic": "short", "partition": 3, "replicas": [1]}]}))
    refused = on_broker("partitions", "reassign", "--file", str(file))
    assert (refused.code, "there is no partition short-3" in refused.err) == (2, True)


def test_leaders_that_are_preferred_already_stay(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "led", "-p", "2")
    elected = on_broker("partitions", "elect-leaders", "--topic", "led:1")
    assert (elected.code, elected.out) == (0, "topic\tpartition\tresult\nled\t1\telection_not_needed\n")
    assert on_broker("partitions", "elect-leaders", "--json").json == []


class MovingPartition:
    """Partition t-0 on broker 1, on its way to broker 2 until it is cancelled."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cancelled: list[int] = []
        self.listings_left = 100
        cluster.create_topic("t")
        answers = cluster.brokers[1].answers
        answers[ApiKey.LIST_PARTITION_REASSIGNMENTS] = self.list
        answers[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = self.alter
        answers[ApiKey.DESCRIBE_CLUSTER] = self.describe
        answers[ApiKey.DESCRIBE_CONFIGS] = self.configs

    def list(self, request: ReceivedRequest) -> Any:
        new = request.types.new
        entry = new(
            "OngoingPartitionReassignment",
            partition_index=0,
            replicas=[2, 1],
            adding_replicas=[2],
            removing_replicas=[1],
        )
        self.listings_left -= 1
        is_over = self.cancelled or self.listings_left < 0
        topics = [] if is_over else [new("OngoingTopicReassignment", name="t", partitions=[entry])]
        return request.types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None, topics=topics)

    def alter(self, request: ReceivedRequest) -> Any:
        new = request.types.new
        (topic,) = request.body.topics
        assert [each.replicas for each in topic.partitions] == [None]
        self.cancelled = [each.partition_index for each in topic.partitions]
        results = [new("ReassignablePartitionResponse", partition_index=0, error_code=ErrorCode.none, error_message="")]
        topics = [new("ReassignableTopicResponse", name=topic.name, partitions=results)]
        return request.types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None, responses=topics)

    def describe(self, request: ReceivedRequest) -> Any:
        return request.types.message(
            throttle_time=0, error_code=ErrorCode.none, cluster_id="c", controller_id=1, brokers=[]
        )

    def configs(self, request: ReceivedRequest) -> Any:
        return request.types.message(throttle_time=0, results=[])


@pytest.fixture
def moving() -> Iterator[tuple[MovingPartition, str]]:
    with loopback_cluster() as (cluster, bootstrap):
        yield MovingPartition(cluster), bootstrap


@pytest.mark.parametrize("named", [(), ("--topic", "t"), ("--topic", "t", "--partition", "0"), ("--topics", "t")])
def test_what_moves_is_shown_and_cancelled(
    crabka: RunCommand, moving: tuple[MovingPartition, str], named: tuple[str, ...]
) -> None:
    partition, bootstrap = moving
    move = ("partitions", "reassign", "--bootstrap", bootstrap, *named)
    row = {"topic": "t", "partition": 0, "replicas": [2, 1], "adding": [2], "removing": [1]}
    assert crabka(*move, "--list", "--json").json == [row]
    assert crabka(*move, "--cancel", "--json").json == [row]
    assert partition.cancelled == [0]
    assert crabka(*move, "--cancel").out.count("\n") == 1


def test_a_cancelled_plan_is_not_called_done(crabka: RunCommand, moving: tuple[MovingPartition, str]) -> None:
    partition, bootstrap = moving
    partition.listings_left = 1
    failed = crabka("partitions", "reassign", "--bootstrap", bootstrap, "--wait")
    assert failed.code == 1
    assert failed.err.splitlines() == [
        "1 of 1 partitions are done, 0 replicas to come",
        "crabka: t-0 has replicas (1,), not (2,): another reassignment changed it",
    ]
