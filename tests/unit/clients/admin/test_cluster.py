"""Calls about nodes, the quorum and features: what is asked, and how answers come back."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import FeatureRange
from crabka.clients.admin.cluster_types import QuorumReplica
from crabka.errors import OperationError
from crabka.ids import ZERO_UUID
from crabka.kraft.voters import VoterEndpoint
from crabka.protocol.apis import ApiKey, ms
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import Answer, ReceivedRequest
from tests.support.clients.simulation import ClientSimulation

DIRECTORY = uuid.UUID(int=77)


def _plain(code: ErrorCode) -> Answer:
    return lambda request: request.types.message(throttle_time=0, error_code=code, error_message="because")


def test_brokers_are_described_and_fenced_ones_on_demand() -> None:
    def answer(request: ReceivedRequest) -> Any:
        new = request.types.new
        live = new("DescribeClusterBroker", broker_id=3, host="h", port=5, rack="r", is_fenced=False)
        fenced = new("DescribeClusterBroker", broker_id=4, host="h", port=6, rack=None, is_fenced=True)
        brokers = [live, fenced] if request.body.include_fenced_brokers else [live]
        return request.types.message(
            throttle_time=0, error_code=ErrorCode.none, cluster_id="c", controller_id=3, brokers=brokers
        )

    async def test(admin: Admin, _: ClientSimulation) -> None:
        cluster = await admin.cluster.describe()
        assert (cluster.cluster_id, cluster.controller_id, cluster.brokers) == ("c", 3, ((3, "h", 5, "r"),))
        everybody = await admin.cluster.describe(include_fenced=True)
        assert ([broker.node_id for broker in everybody.brokers], set(everybody.fenced)) == ([3, 4], {4})

    with_admin(test, DESCRIBE_CLUSTER=answer)


@run_with(lambda test: with_admin(test, UNREGISTER_BROKER=_plain(ErrorCode.none)))
async def test_a_broker_is_forgotten(admin: Admin, simulation: ClientSimulation, /) -> None:
    await admin.cluster.unregister_broker(5)
    assert simulation.brokers.asked(ApiKey.UNREGISTER_BROKER)[0].body.broker_id == 5


@run_with(lambda test: with_admin(test, UNREGISTER_BROKER=_plain(ErrorCode.broker_id_not_registered)))
async def test_an_unknown_broker_cannot_be_unregistered(admin: Admin, /) -> None:
    with pytest.raises(OperationError, match="broker 5: because") as caught:
        await admin.cluster.unregister_broker(5)
    assert caught.value.error_code is ErrorCode.broker_id_not_registered


def _quorum(request: ReceivedRequest, code: ErrorCode = ErrorCode.none) -> Any:
    new = request.types.new
    asked = request.body.topics[0]
    states = [
        new(
            "ReplicaState",
            replica_id=number,
            replica_directory_id=DIRECTORY,
            log_end_offset=90 + number,
            last_fetch_timestamp=7,
            last_caught_up_timestamp=6,
        )
        for number in (1, 2)
    ]
    partition = new(
        "PartitionData",
        partition_index=asked.partitions[0].partition_index,
        error_code=code,
        error_message=None,
        leader_id=1,
        leader_epoch=4,
        high_watermark=91,
        current_voters=states[:1],
        observers=states[1:],
    )
    node = new("Node", node_id=1, listeners=[new("Listener", name="CONTROLLER", host="c1", port=9093)])
    topic = new("TopicData", topic_name=asked.topic_name, partitions=[partition])
    return request.types.message(error_code=ErrorCode.none, error_message=None, topics=[topic], nodes=[node])


@run_with(with_admin, DESCRIBE_QUORUM=_quorum)
async def test_the_quorum_is_described(admin: Admin, /) -> None:
    quorum = await admin.cluster.describe_quorum()
    assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (1, 4, 91)
    assert quorum.voters == (QuorumReplica(1, DIRECTORY, 91, 7, 6),)
    assert [observer.node_id for observer in quorum.observers] == [2]
    assert quorum.nodes == {1: (VoterEndpoint("CONTROLLER", "c1", 9093),)}


@run_with(with_admin, DESCRIBE_QUORUM=_quorum)
async def test_old_brokers_report_less_of_the_quorum(admin: Admin, simulation: ClientSimulation, /) -> None:
    simulation.brokers.brokers[1].versions[ApiKey.DESCRIBE_QUORUM] = (0, 0)
    quorum = await admin.cluster.describe_quorum()
    assert quorum.voters == (QuorumReplica(1, ZERO_UUID, 91, -1, -1),)
    assert quorum.nodes == {}


def test_a_leader_of_the_quorum_is_waited_for() -> None:
    codes = iter([ErrorCode.not_leader_or_follower, ErrorCode.none])

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        assert (await admin.cluster.describe_quorum()).leader_id == 1
        assert len(simulation.brokers.asked(ApiKey.DESCRIBE_QUORUM)) == 2

    with_admin(test, DESCRIBE_QUORUM=lambda request: _quorum(request, next(codes)))


@run_with(lambda test: with_admin(test, ADD_RAFT_VOTER=_plain(ErrorCode.none)))
async def test_a_voter_is_added_with_its_endpoints(admin: Admin, simulation: ClientSimulation, /) -> None:
    await admin.cluster.add_raft_voter(3, DIRECTORY, [VoterEndpoint("CONTROLLER", "c3", 9093)], cluster_id="c")
    body = simulation.brokers.asked(ApiKey.ADD_RAFT_VOTER)[0].body
    assert (body.cluster_id, body.voter_id, body.voter_directory_id) == ("c", 3, DIRECTORY)
    assert [(each.name, each.host, each.port) for each in body.listeners] == [("CONTROLLER", "c3", 9093)]
    assert (ms(body.timeout), body.ack_when_committed) == (2_000, True)


@run_with(lambda test: with_admin(test, REMOVE_RAFT_VOTER=_plain(ErrorCode.voter_not_found)))
async def test_a_voter_is_removed_by_both_its_ids(admin: Admin, simulation: ClientSimulation, /) -> None:
    with pytest.raises(OperationError, match="voter 3: because"):
        await admin.cluster.remove_raft_voter(3, DIRECTORY)
    body = simulation.brokers.asked(ApiKey.REMOVE_RAFT_VOTER)[0].body
    assert (body.cluster_id, body.voter_id, body.voter_directory_id) == (None, 3, DIRECTORY)


def test_features_are_described_as_they_are_now_and_updated() -> None:
    levels = {"group.version": 1}

    def versions(request: ReceivedRequest) -> Any:
        new = request.types.new
        return request.types.message(
            error_code=ErrorCode.none,
            api_keys=[
                new("ApiVersion", api_key=key, min_version=0, max_version=top)
                for key, top in ((ApiKey.UPDATE_FEATURES, 2), (ApiKey.METADATA, 2), (ApiKey.API_VERSIONS, 4))
            ],
            throttle_time=0,
            supported_features=[
                new("SupportedFeatureKey", name="group.version", min_version=0, max_version=1),
                new("SupportedFeatureKey", name="other", min_version=0, max_version=2),
            ],
            finalized_features=[
                new("FinalizedFeatureKey", name=name, max_version_level=level, min_version_level=level)
                for name, level in levels.items()
            ],
        )

    def update(request: ReceivedRequest) -> Any:
        (wanted,) = request.body.feature_updates
        code = ErrorCode.none if wanted.max_version_level < 3 else ErrorCode.feature_update_failed
        if code is ErrorCode.none and not request.body.validate_only:
            levels[wanted.feature] = wanted.max_version_level
        return request.types.message(throttle_time=0, error_code=code, error_message="no", results=[])

    async def test(admin: Admin, _: ClientSimulation) -> None:
        expected = {"group.version": FeatureRange(0, 1, 1), "other": FeatureRange(0, 2, -1)}
        assert await admin.cluster.describe_features() == expected
        await admin.cluster.update_features({"other": 2}, validate_only=True)
        assert await admin.cluster.describe_features() == expected
        await admin.cluster.update_features({"other": 2})
        assert (await admin.cluster.describe_features())["other"].finalized == 2
        with pytest.raises(OperationError) as caught:
            await admin.cluster.update_features({"other": 3})
        assert caught.value.error_code is ErrorCode.feature_update_failed

    with_admin(test, API_VERSIONS=versions, UPDATE_FEATURES=update)
