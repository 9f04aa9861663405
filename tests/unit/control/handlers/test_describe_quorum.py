"""DescribeQuorum at the controller listener."""

from __future__ import annotations

from crabka.kraft.messages import DescribeRequest
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.sim_controller import SimControllers, run_controllers


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
