"""Calls about reassignments and elections."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.cluster_types import ElectionKind, ReplicaMove
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clients.simulation import ClientSimulation

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def _altered(request: ReceivedRequest) -> Any:
    new = request.types.new
    topics = [
        new(
            "ReassignableTopicResponse",
            name=topic.name,
            partitions=[
                new(
                    "ReassignablePartitionResponse",
                    partition_index=each.partition_index,
                    error_code=ErrorCode.no_reassignment_in_progress if each.replicas is None else ErrorCode.none,
                    error_message=None,
                )
                for each in topic.partitions
            ],
        )
        for topic in request.body.topics
    ]
    return request.types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None, responses=topics)


@run_with(with_admin, ALTER_PARTITION_REASSIGNMENTS=_altered)
async def test_partitions_are_moved_and_the_first_error_is_raised(
    admin: Admin, simulation: ClientSimulation, /
) -> None:
    await admin.replicas.reassign({T0: [1, 2], U0: [3], T1: [2]})
    body = simulation.brokers.asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS)[0].body
    asked = {topic.name: [(each.partition_index, each.replicas) for each in topic.partitions] for topic in body.topics}
    assert asked == {"t": [(0, (1, 2)), (1, (2,))], "u": [(0, (3,))]}
    with pytest.raises(OperationError, match="t-1: no_reassignment_in_progress"):
        await admin.replicas.reassign({T0: [1], T1: None})


def test_what_moves_is_listed() -> None:
    def answer(request: ReceivedRequest) -> Any:
        new = request.types.new
        entry = new(
            "OngoingPartitionReassignment",
            partition_index=0,
            replicas=[1, 2, 3],
            adding_replicas=[3],
            removing_replicas=[1],
        )
        topic = new("OngoingTopicReassignment", name="t", partitions=[entry])
        return request.types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None, topics=[topic])

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        found = await admin.replicas.list_reassignments()
        assert found == {T0: ReplicaMove((1, 2, 3), (3,), (1,))}
        assert found[T0].target == (2, 3)
        await admin.replicas.list_reassignments([T0, T1])
        everything, some = simulation.brokers.asked(ApiKey.LIST_PARTITION_REASSIGNMENTS)
        assert everything.body.topics is None
        assert [(topic.name, topic.partition_indexes) for topic in some.body.topics] == [("t", (0, 1))]

    with_admin(test, LIST_PARTITION_REASSIGNMENTS=answer)


def _elected(request: ReceivedRequest) -> Any:
    new = request.types.new
    topics = []
    for topic in request.body.topic_partitions or ():
        results = [
            new(
                "PartitionResult",
                partition_id=index,
                error_code=ErrorCode.none if index == 0 else ErrorCode.election_not_needed,
                error_message=None,
            )
            for index in topic.partitions
        ]
        topics.append(new("ReplicaElectionResult", topic=topic.topic, partition_result=results))
    return request.types.message(throttle_time=0, error_code=ErrorCode.none, replica_election_results=topics)


@pytest.mark.parametrize("version", [0, 2])
@run_with(with_admin, ELECT_LEADERS=_elected)
async def test_elections_report_each_partition(admin: Admin, simulation: ClientSimulation, /, version: int) -> None:
    simulation.brokers.brokers[1].versions[ApiKey.ELECT_LEADERS] = (0, version)
    results = await admin.replicas.elect_leaders(ElectionKind.PREFERRED, [T0, T1])
    assert results[T0] is None
    error = results[T1]
    assert error is not None
    assert error.error_code is ErrorCode.election_not_needed
    assert await admin.replicas.elect_leaders(ElectionKind.PREFERRED) == {}
