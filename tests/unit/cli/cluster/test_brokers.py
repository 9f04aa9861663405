"""`crabka brokers` against a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clusters.loopback import loopback_cluster
from tests.unit.cli.conftest import RunCommand


def test_a_broker_is_shown_with_what_it_carries(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "carried", "-p", "2")
    (row,) = on_broker("brokers", "--json").json
    assert (row["broker"], row["state"], row["rack"]) == (1, "active", None)
    assert row["leaders"] >= 2
    assert row["leaders"] == row["replicas"] == row["in_sync"]
    assert len(row["log_dirs"]) == 1
    assert row["size_bytes"] >= 0
    assert (row["roles"], row["version"]) == (["broker", "controller"], "4.3")
    assert on_broker("brokers", "list", "--json").json[0].keys() == row.keys()
    header = on_broker("brokers", "list").out.splitlines()[0]
    assert header == on_broker("brokers").out.splitlines()[0]
    assert header.startswith("broker\taddress\track\tstate\tquorum\tleaders")


def test_fenced_brokers_are_shown_without_what_only_they_know(crabka: RunCommand) -> None:
    def describe(request: ReceivedRequest) -> Any:
        new = request.types.new
        assert request.body.include_fenced_brokers
        host, port = addresses[1]
        return request.types.message(
            throttle_time=0,
            error_code=ErrorCode.none,
            cluster_id="c",
            controller_id=1,
            brokers=[
                new("DescribeClusterBroker", broker_id=2, host="gone", port=9, rack="r", is_fenced=True),
                new("DescribeClusterBroker", broker_id=1, host=host, port=port, rack=None, is_fenced=False),
            ],
        )

    def quorum(request: ReceivedRequest) -> Any:
        new = request.types.new
        state = new("ReplicaState", replica_id=2, replica_directory_id=None, log_end_offset=1)
        partition = new(
            "PartitionData",
            partition_index=0,
            error_code=ErrorCode.none,
            error_message=None,
            leader_id=1,
            leader_epoch=1,
            high_watermark=1,
            current_voters=[state],
            observers=[],
        )
        topic = new("TopicData", topic_name="__cluster_metadata", partitions=[partition])
        return request.types.message(error_code=ErrorCode.none, error_message=None, topics=[topic], nodes=[])

    def log_dirs(request: ReceivedRequest) -> Any:
        return request.types.message(throttle_time=0, error_code=ErrorCode.cluster_authorization_failed, results=[])

    with loopback_cluster() as (cluster, bootstrap):
        addresses = cluster.addresses
        answers = cluster.brokers[1].answers
        answers[ApiKey.DESCRIBE_CLUSTER] = describe
        answers[ApiKey.DESCRIBE_QUORUM] = quorum
        answers[ApiKey.DESCRIBE_LOG_DIRS] = log_dirs
        first, second = crabka("brokers", "--bootstrap", bootstrap, "--json").json
    assert (first["broker"], first["state"], first["quorum"], first["log_dirs"]) == (1, "active", "leader", None)
    assert (second["broker"], second["address"], second["rack"]) == (2, "gone:9", "r")
    assert (second["state"], second["quorum"], second["size_bytes"]) == ("fenced", "voter", None)


def brokers_answer(fenced: set[int]) -> Callable[[ReceivedRequest], Any]:
    def describe(request: ReceivedRequest) -> Any:
        brokers = [
            request.types.new("DescribeClusterBroker", broker_id=each, host="h", port=9, is_fenced=each in fenced)
            for each in (1, 2, 3)
            if request.body.include_fenced_brokers or each not in fenced
        ]
        return request.types.message(
            throttle_time=0, error_code=ErrorCode.none, cluster_id="c", controller_id=1, brokers=brokers
        )

    return describe


def test_a_broker_is_unregistered_if_it_is_not_active(crabka: RunCommand) -> None:
    unregistered: list[int] = []

    def answer(request: ReceivedRequest) -> Any:
        unregistered.append(request.body.broker_id)
        code = ErrorCode.none if request.body.broker_id < 4 else ErrorCode.broker_id_not_registered
        return request.types.message(throttle_time=0, error_code=code, error_message=None)

    with loopback_cluster() as (cluster, bootstrap):
        answers = cluster.brokers[1].answers
        answers[ApiKey.UNREGISTER_BROKER] = answer
        answers[ApiKey.DESCRIBE_CLUSTER] = brokers_answer(fenced={3})
        done = crabka("brokers", "unregister", "3", "--bootstrap", bootstrap)
        assert done == (0, "broker 3 is no longer registered\n", "")
        refused = crabka("brokers", "unregister", "4", "--bootstrap", bootstrap)
        assert refused == (
            1,
            "",
            "crabka: broker 4: broker_id_not_registered; `crabka brokers list` shows all brokers\n",
        )
        active = crabka("brokers", "unregister", "2", "--bootstrap", bootstrap)
        assert (active.code, "broker 2 is active: stop it first, or add --force" in active.err) == (2, True)
        answers[ApiKey.DESCRIBE_CLUSTER] = brokers_answer(fenced={1, 3})
        only = crabka("brokers", "unregister", "2", "--bootstrap", bootstrap)
        assert (only.code, "broker 2 is the only active broker" in only.err) == (2, True)
        unknown = crabka("brokers", "unregister", "2", "--bootstrap-controller", bootstrap)
        assert (unknown.code, "controllers do not say which brokers are active" in unknown.err) == (2, True)
        assert unregistered == [3, 4]
        assert crabka("brokers", "unregister", "2", "--force", "--bootstrap", bootstrap).code == 0
        assert unregistered == [3, 4, 2]
