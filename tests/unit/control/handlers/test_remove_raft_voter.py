"""RemoveRaftVoter at the controller listener."""

from __future__ import annotations

from uuid import UUID

from crabka.kraft.messages import RemoveVoterRequest
from crabka.kraft.voters import ReplicaKey
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.raft_cluster import voter
from tests.support.sim_controller import CLUSTER_ID, SimControllers, run_controllers


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
