"""Requests that the quorum answers, at the controller listener."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

from crabka.controller.api_table import ask_quorum
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    MetadataFetchRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
)
from crabka.kraft.voters import ReplicaKey, VoterEndpoint
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey, request_types
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft.messages import encode_request
from crabka.serving.request import Request
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import build
from tests.support.quorum.node import new_topic
from tests.support.quorum.raft_cluster import voter
from tests.support.quorum.sim_controllers import CLUSTER_ID, SimControllers, run_controllers


def ballot(epoch: int, cluster_id: str = CLUSTER_ID) -> VoteRequest:
    candidate = ReplicaKey(2, voter(2).directory_id)
    return VoteRequest(
        cluster_id=cluster_id, candidate=candidate, epoch=epoch, last=OffsetAndEpoch(0, 0), pre_vote=True
    )


@run_with(run_controllers)
async def test_a_pre_vote_against_a_living_leader_is_refused(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    response = await node.ask_quorum(ApiKey.VOTE, 2, ballot(node.quorum.leader_epoch))
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.vote_granted) == (ErrorCode.none, 1, False)


@run_with(run_controllers)
async def test_another_clusters_candidate_is_refused(cluster: SimControllers, /) -> None:
    response = await (await cluster.active()).ask_quorum(ApiKey.VOTE, 2, ballot(1, "other"))
    assert response.error_code is ErrorCode.inconsistent_cluster_id


@run_with(run_controllers)
async def test_a_leader_of_an_old_epoch_receives_the_new_one(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    message = BeginQuorumEpochRequest(cluster_id=CLUSTER_ID, leader_id=1, epoch=0)
    (partition,) = (await node.ask_quorum(ApiKey.BEGIN_QUORUM_EPOCH, 1, message)).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.fenced_leader_epoch, 1)
    assert partition.leader_epoch == node.quorum.leader_epoch


@run_with(run_controllers)
async def test_the_end_of_an_old_epoch_is_no_news(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    message = EndQuorumEpochRequest(cluster_id=CLUSTER_ID, leader_id=1, epoch=0)
    (partition,) = (await node.ask_quorum(ApiKey.END_QUORUM_EPOCH, 1, message)).topics[0].partitions
    assert partition.error_code is ErrorCode.fenced_leader_epoch
    assert node.service.is_active


def fetch(epoch: int, offset: int, max_wait_ms: int = 0) -> MetadataFetchRequest:
    return MetadataFetchRequest(
        cluster_id=CLUSTER_ID,
        replica=ReplicaKey(9, UUID(int=9)),
        epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=epoch if offset else 0,
        max_wait_ms=max_wait_ms,
        max_bytes=1 << 20,
        high_watermark=-1,
    )


@run_with(run_controllers)
async def test_an_observer_reads_the_log(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    response = await node.ask_quorum(ApiKey.FETCH, 17, fetch(node.quorum.leader_epoch, 0))
    (partition,) = response.responses[0].partitions
    assert partition.error_code is ErrorCode.none
    assert partition.records


@run_with(run_controllers)
async def test_a_fetch_at_the_end_waits_for_news(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    client = await node.connect()
    end = node.quorum.next_offset
    body = fetch(node.quorum.leader_epoch, end, 10_000)
    client.post(ApiKey.FETCH, 17, encode_request(request_types(ApiKey.FETCH, 17), body))
    await node.quorum.append(new_topic("t", 1))
    _, response = await client.response(ApiKey.FETCH, 17)
    assert response.responses[0].partitions[0].records
    client.transport.close()


@run_with(run_controllers)
async def test_pieces_of_a_snapshot(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    await node.quorum.snapshot()
    image = node.quorum.image

    def piece(snapshot: OffsetAndEpoch) -> FetchSnapshotRequest:
        return FetchSnapshotRequest(
            cluster_id=CLUSTER_ID,
            replica=ReplicaKey(9, UUID(int=9)),
            epoch=node.quorum.leader_epoch,
            snapshot=snapshot,
            position=0,
            max_bytes=100,
        )

    newest = OffsetAndEpoch(image.offset + 1, image.epoch)
    (found,) = (await node.ask_quorum(ApiKey.FETCH_SNAPSHOT, 1, piece(newest))).topics[0].partitions
    assert (found.error_code, found.position) == (ErrorCode.none, 0)
    assert found.size > 0
    (lost,) = (await node.ask_quorum(ApiKey.FETCH_SNAPSHOT, 1, piece(OffsetAndEpoch(1, 1)))).topics[0].partitions
    assert lost.error_code is ErrorCode.snapshot_not_found


@run_with(run_controllers, 3)
async def test_the_leader_describes_its_voters(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    response = await node.ask_quorum(ApiKey.DESCRIBE_QUORUM, 2, DescribeRequest())
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.none, node.node_id)
    assert sorted(each.replica_id for each in partition.current_voters) == [1, 2, 3]


@run_with(run_controllers, 3)
async def test_others_do_not_know(cluster: SimControllers, /) -> None:
    node = await cluster.passive()
    response = await node.ask_quorum(ApiKey.DESCRIBE_QUORUM, 2, DescribeRequest())
    assert response.error_code is ErrorCode.not_leader_or_follower


@run_with(run_controllers)
async def test_a_voter_cannot_be_added_twice(cluster: SimControllers, /) -> None:
    message = AddVoterRequest(
        cluster_id=CLUSTER_ID,
        voter=ReplicaKey(1, voter(1).directory_id),
        endpoints=voter(1).endpoints,
        timeout_ms=1000,
    )
    response = await (await cluster.active()).ask_quorum(ApiKey.ADD_RAFT_VOTER, 0, message)
    assert response.error_code is ErrorCode.duplicate_voter


def removal(node_id: int, directory_id: UUID) -> RemoveVoterRequest:
    return RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=ReplicaKey(node_id, directory_id), timeout_ms=5000)


@run_with(run_controllers, 3)
async def test_a_voter_is_removed_by_its_whole_key(cluster: SimControllers, /) -> None:
    node, other = await cluster.active(), await cluster.passive()
    wrong = await node.ask_quorum(ApiKey.REMOVE_RAFT_VOTER, 0, removal(other.node_id, UUID(int=77)))
    assert wrong.error_code is ErrorCode.voter_not_found
    directory = voter(other.node_id).directory_id
    right = await node.ask_quorum(ApiKey.REMOVE_RAFT_VOTER, 0, removal(other.node_id, directory))
    assert right.error_code is ErrorCode.none
    assert other.node_id not in {each.voter_id for each in node.quorum.voters}


@run_with(run_controllers, 3)
async def test_a_voter_reports_a_new_endpoint(cluster: SimControllers, /) -> None:
    node, other = await cluster.active(), await cluster.passive()
    moved = replace(voter(other.node_id), endpoints=(VoterEndpoint("CONTROLLER", "elsewhere", 9),))
    message = UpdateVoterRequest(cluster_id=CLUSTER_ID, epoch=node.quorum.leader_epoch, voter=moved)
    response = await node.ask_quorum(ApiKey.UPDATE_RAFT_VOTER, 0, message)
    assert response.error_code is ErrorCode.none
    (reported,) = [each for each in node.quorum.voters if each.voter_id == other.node_id]
    assert reported.endpoints == moved.endpoints


@run_with(run_controllers)
async def test_the_answer_is_a_future_that_can_be_given_up(cluster: SimControllers, /) -> None:
    context = (await cluster.active()).context
    body = build(ApiKey.DESCRIBE_QUORUM, 2, topics=[])
    connection = ConnectionInfo(1, "CONTROLLER", "h", 1)
    answer = ask_quorum(context, Request(ApiKey.DESCRIBE_QUORUM, 2, 1, None, body, connection))
    assert isinstance(answer, asyncio.Future)
    assert (await answer).error_code is ErrorCode.invalid_request
