"""The metadata partition of a partition, as Kafka's broker chooses it."""

from __future__ import annotations

import uuid

import pytest

from crabka.ids import uuid_from_text
from crabka.remote.segments import TopicIdPartition
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import decode_event
from tests.support.tier_topic.events import golden_event_values

TOPIC_ID = uuid.UUID(int=0x123456789ABCDEF00011223344556677)


@pytest.mark.parametrize(("partition", "expected"), [(0, 6), (1, 36), (3, 2), (7, 26)])
def test_partition_is_that_of_the_murmur2_hash_in_kafka(partition: int, expected: int) -> None:
    assert metadata_partition_for(TopicIdPartition(TOPIC_ID, "t", partition), 50) == expected


@pytest.mark.parametrize("node", ["single", "overlap"])
def test_events_of_kafka_lie_where_they_are_looked_for(node: str) -> None:
    partitions = golden_event_values(node)
    count = 3
    for partition, records in partitions.items():
        for _, value in records:
            assert metadata_partition_for(decode_event(value).topic_id_partition, count) == partition


def test_a_new_name_does_not_move_the_events() -> None:
    topic_id = uuid_from_text("ksqWDRxfTGu8jPNvmLEoUg")
    partitions = {metadata_partition_for(TopicIdPartition(topic_id, name, 1), 50) for name in ("a", "b", "c")}
    assert len(partitions) == 1


@pytest.mark.parametrize("count", [0, -1])
def test_a_topic_without_partitions_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"cannot have {count} partitions"):
        metadata_partition_for(TopicIdPartition(TOPIC_ID, "t", 0), count)
