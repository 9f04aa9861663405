"""AddRaftVoter at the controller listener."""

from __future__ import annotations

from crabka.kraft.messages import AddVoterRequest
from crabka.kraft.voters import ReplicaKey
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.raft_cluster import voter
from tests.support.sim_controller import CLUSTER_ID, SimControllers, run_controllers


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
