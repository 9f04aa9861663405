"""BeginQuorumEpoch at the controller listener."""

from __future__ import annotations

from crabka.kraft.messages import BeginQuorumEpochRequest
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.sim_controller import CLUSTER_ID, SimControllers, run_controllers


@run_with(run_controllers)
async def test_a_leader_of_an_old_epoch_is_told_the_new_one(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    message = BeginQuorumEpochRequest(cluster_id=CLUSTER_ID, leader_id=1, epoch=0)
    (partition,) = (await node.ask_quorum(ApiKey.BEGIN_QUORUM_EPOCH, 1, message)).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.fenced_leader_epoch, 1)
    assert partition.leader_epoch == node.quorum.leader_epoch
