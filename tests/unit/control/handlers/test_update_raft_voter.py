"""UpdateRaftVoter at the controller listener."""

from __future__ import annotations

from dataclasses import replace

from crabka.kraft.messages import UpdateVoterRequest
from crabka.kraft.voters import VoterEndpoint
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.raft_cluster import voter
from tests.support.sim_controller import CLUSTER_ID, SimControllers, run_controllers


@run_with(run_controllers, 3)
async def test_a_voter_tells_a_new_endpoint(cluster: SimControllers, /) -> None:
    node, other = await cluster.active(), await cluster.passive()
    moved = replace(voter(other.node_id), endpoints=(VoterEndpoint("CONTROLLER", "elsewhere", 9),))
    message = UpdateVoterRequest(cluster_id=CLUSTER_ID, epoch=node.quorum.leader_epoch, voter=moved)
    response = await node.ask_quorum(ApiKey.UPDATE_RAFT_VOTER, 0, message)
    assert response.error_code is ErrorCode.none
    (told,) = [each for each in node.quorum.voters if each.voter_id == other.node_id]
    assert told.endpoints == moved.endpoints
