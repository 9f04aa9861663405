"""AssignReplicasToDirs over the wire."""

from __future__ import annotations

from uuid import UUID

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import row
from tests.support.quorum.sim_controllers import SimControllers, WireBroker, create_topic, run_controllers


@run_with(run_controllers)
async def test_placements_are_answered_in_their_order(cluster: SimControllers, /) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    second = UUID(int=999_999)
    await broker.register(node, log_dirs=(broker.directory, second))
    await broker.heartbeat(node)
    topic_id = await create_topic(node, "t", (11,))
    partitions = [row("PartitionData", partition_index=index) for index in (5, 0)]
    directories = [
        row("DirectoryData", id_=second, topics=[row("TopicData", topic_id=topic_id, partitions=partitions)])
    ]
    fields = {"broker_id": 11, "broker_epoch": broker.epoch, "directories": directories}
    response = await node.ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, **fields)
    assert response.error_code is ErrorCode.none
    (directory,) = response.directories
    assert (directory.id_, directory.topics[0].topic_id) == (second, topic_id)
    assert [(each.partition_index, each.error_code) for each in directory.topics[0].partitions] == [
        (5, ErrorCode.unknown_topic_or_partition),
        (0, ErrorCode.none),
    ]
    assert node.context.image.topics.by_id[topic_id].partitions[0].directories == (second,)


@run_with(run_controllers)
async def test_an_older_incarnation_is_refused(cluster: SimControllers, /) -> None:
    fields = {"broker_id": 11, "broker_epoch": 1, "directories": []}
    response = await (await cluster.active()).ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, **fields)
    assert (response.error_code, response.directories) == (ErrorCode.stale_broker_epoch, ())
