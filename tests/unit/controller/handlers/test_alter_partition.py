"""AlterPartition over the wire; the decisions themselves are tested with the controller."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import Row, row
from tests.support.quorum.sim_controllers import SimControllers, WireBroker, create_topic, run_controllers


def proposal(topic_id: UUID, epochs: dict[int, int], version: int, **changes: int) -> Row:
    members = [row("BrokerState", broker_id=key, broker_epoch=epoch) for key, epoch in epochs.items()]
    isr: dict[str, Any] = {"new_isr_with_epochs": members} if version >= 3 else {"new_isr": tuple(epochs)}
    fields = {"partition_index": 0, "leader_epoch": 0, "leader_recovery_state": 0, "partition_epoch": 0, **changes}
    return row("TopicData", topic_id=topic_id, partitions=[row("PartitionData", **isr, **fields)])


@pytest.mark.parametrize("version", [2, 3])
@run_with(run_controllers)
async def test_a_leader_shrinks_and_grows_its_isr(cluster: SimControllers, /, version: int) -> None:
    node, leader, other = await cluster.active(), WireBroker(cluster), WireBroker(cluster, 12, 9093)
    await leader.serve(node)
    await other.serve(node)
    topic_id = await create_topic(node, "t", (11, 12))

    async def alter(epochs: dict[int, int], **changes: int) -> Any:
        response = await node.ask(
            ApiKey.ALTER_PARTITION,
            version,
            broker_id=11,
            broker_epoch=leader.epoch,
            topics=[proposal(topic_id, epochs, version, **changes)],
        )
        assert response.error_code is ErrorCode.none
        return response.topics[0].partitions[0]

    shrunk = await alter({11: leader.epoch})
    assert (shrunk.error_code, shrunk.leader_id, shrunk.isr) == (ErrorCode.none, 11, (11,))
    assert shrunk.partition_epoch == 1
    both = {11: leader.epoch, 12: other.epoch}
    assert (await alter(both)).error_code is ErrorCode.invalid_update_version
    grown = await alter(both, partition_epoch=1)
    assert (grown.isr, grown.partition_epoch) == ((11, 12), 2)
    assert node.context.image.topics.by_id[topic_id].partitions[0].isr == (11, 12)


@run_with(run_controllers)
async def test_an_older_incarnation_is_refused_as_a_whole(cluster: SimControllers, /) -> None:
    node, leader = await cluster.active(), WireBroker(cluster)
    await leader.serve(node)
    response = await node.ask(ApiKey.ALTER_PARTITION, 3, broker_id=11, broker_epoch=0, topics=[])
    assert (response.error_code, response.topics) == (ErrorCode.stale_broker_epoch, ())


@run_with(run_controllers, 3)
async def test_only_the_active_controller_decides(cluster: SimControllers, /) -> None:
    node = await cluster.passive()
    response = await node.ask(ApiKey.ALTER_PARTITION, 3, broker_id=11, broker_epoch=0, topics=[])
    assert response.error_code is ErrorCode.not_controller
