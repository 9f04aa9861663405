"""Topics as a tier shows them: ids, partitions and what is missing."""

from __future__ import annotations

import uuid

import pytest

from crabka.remote.recovery import RecoverablePartition, group_by_topic
from crabka.remote.segments import TopicIdPartition
from tests.support.tiers.planted import two_segments

ID, OTHER = uuid.UUID(int=7), uuid.UUID(int=8)


def partition(topic: str, topic_id: uuid.UUID, index: int) -> RecoverablePartition:
    identity = TopicIdPartition(topic_id, topic, index)
    return RecoverablePartition(
        topic_id_partition=identity,
        log_start_offset=0,
        end_offset=60,
        leader_epochs=((0, 0),),
        producer_snapshot=b"",
        segments=tuple(two_segments(identity).segments),
    )


def test_topics_have_the_partitions_up_to_the_last_one_that_is_known() -> None:
    topics = group_by_topic([partition("b", OTHER, 0), partition("a", ID, 3), partition("a", ID, 1)], {})
    assert [(topic.name, topic.topic_id, topic.partition_count) for topic in topics] == [("a", ID, 4), ("b", OTHER, 1)]
    assert topics[0].missing_partitions == [0, 2]
    assert topics[1].missing_partitions == []


def test_operators_may_know_of_more_partitions_but_not_of_fewer() -> None:
    (topic,) = group_by_topic([partition("a", ID, 1)], {"a": 3})
    assert topic.missing_partitions == [0, 2]
    with pytest.raises(ValueError, match="at least 2 partitions"):
        group_by_topic([partition("a", ID, 1)], {"a": 1})


def test_size_is_that_of_all_segments() -> None:
    found = partition("a", ID, 0)
    assert found.size_bytes == sum(segment.segment_size_bytes for segment in found.segments) > 0
