"""ListPartitionReassignments over the wire."""

from __future__ import annotations

from typing import Any

from crabka.metadata.image import MetadataImage
from crabka.metadata.records import PartitionChangeRecord
from crabka.metadata.requests import Outcome
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row
from tests.support.quorum.images import register_broker, registration


def listed(node: SimNode, wanted: dict[str, list[int]] | None) -> list[Any]:
    topics = None
    if wanted is not None:
        topics = [
            row("ListPartitionReassignmentsTopics", name=name, partition_indexes=ids) for name, ids in wanted.items()
        ]
    response = node.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics, timeout=1000)
    assert (response.error_code, response.error_message) == (ErrorCode.none, None)
    return list(response.topics)


def begin(node: SimNode) -> None:
    """Begin to move partition 1 to a broker that is registered and does not run."""
    topic_id = node.context.image.topics.by_name["t"].topic_id

    def decide(image: MetadataImage) -> Outcome[None]:
        other = register_broker(image, registration(2), broker_epoch=image.offset + 1).records
        change = PartitionChangeRecord(
            partition_id=1,
            topic_id=topic_id,
            replicas=(2, 1),
            adding_replicas=(2,),
            removing_replicas=(1,),
            directories=(*registration(2).log_dirs, *image.topics.by_id[topic_id].partitions[1].directories),
        )
        return Outcome(None, [*other, change])

    node.run(node.metadata_writer.submit(decide))


def test_nothing_is_under_way_on_a_node_alone(node: SimNode) -> None:
    node.create_topic("t", 2)
    assert listed(node, None) == []
    assert listed(node, {"t": [0, 1], "nope": [0]}) == []


def test_what_is_under_way(node: SimNode) -> None:
    node.create_topic("t", 2)
    begin(node)
    for wanted in (None, {"t": [0, 1]}):
        (topic,) = listed(node, wanted)
        (partition,) = topic.partitions
        assert (topic.name, partition.partition_index) == ("t", 1)
        assert (tuple(partition.replicas), tuple(partition.adding_replicas)) == ((2, 1), (2,))
        assert tuple(partition.removing_replicas) == (1,)
    assert listed(node, {"t": [0]}) == []
