"""Vote at the controller listener."""

from __future__ import annotations

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import VoteRequest
from crabka.kraft.voters import ReplicaKey
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.raft_cluster import voter
from tests.support.sim_controller import CLUSTER_ID, SimControllers, run_controllers


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
