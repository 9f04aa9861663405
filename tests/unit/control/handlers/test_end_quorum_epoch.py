"""EndQuorumEpoch at the controller listener."""

from __future__ import annotations

from crabka.kraft.messages import EndQuorumEpochRequest
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.sim_controller import CLUSTER_ID, SimControllers, run_controllers


@run_with(run_controllers)
async def test_the_end_of_an_old_epoch_is_no_news(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    message = EndQuorumEpochRequest(cluster_id=CLUSTER_ID, leader_id=1, epoch=0)
    (partition,) = (await node.ask_quorum(ApiKey.END_QUORUM_EPOCH, 1, message)).topics[0].partitions
    assert partition.error_code is ErrorCode.fenced_leader_epoch
    assert node.service.is_active
