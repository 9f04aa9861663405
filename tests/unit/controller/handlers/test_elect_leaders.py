"""ElectLeaders over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.metadata.records import PartitionChangeRecord
from crabka.metadata.requests import Outcome
from crabka.metadata.topics import NO_LEADER
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of
from tests.support.quorum.images import partition_of


def elect(node: SimNode, partitions: dict[str, list[int]] | None, *, version: int = 2, kind: int = 0) -> Any:
    topics = partitions and [row("TopicPartitions", topic=name, partitions=ids) for name, ids in partitions.items()]
    fields: dict[str, Any] = {"topic_partitions": topics, "timeout": 1000}
    if version >= 1:
        fields["election_type"] = kind
    return node.ask(ApiKey.ELECT_LEADERS, version, **fields)


def codes(response: Any) -> dict[str, dict[int, ErrorCode]]:
    return {
        topic.topic: {each.partition_id: each.error_code for each in topic.partition_result}
        for topic in response.replica_election_results
    }


def without_leader(node: SimNode, topic: str) -> None:
    """Take the leader of partition 0 away, as a failure would."""
    topic_id = node.context.image.topics.by_name[topic].topic_id
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=NO_LEADER)
    node.run(node.metadata_writer.submit(lambda _image: Outcome(None, [change])))


@pytest.mark.parametrize("version", versions_of(ApiKey.ELECT_LEADERS))
def test_a_preferred_leader_comes_back(node: SimNode, version: int) -> None:
    node.create_topic("t", 2)
    without_leader(node, "t")
    assert partition_of(node.context.image).leader == NO_LEADER
    assert codes(elect(node, {"t": [0, 1], "nope": [3]}, version=version)) == {
        "t": {0: ErrorCode.none, 1: ErrorCode.election_not_needed},
        "nope": {3: ErrorCode.unknown_topic_or_partition},
    }
    assert node.produce("t", batch(b"x")).error_code == ErrorCode.none


def test_the_words_are_kafkas(node: SimNode) -> None:
    node.create_topic("t")
    (topic,) = elect(node, {"t": [0]}).replica_election_results
    assert topic.partition_result[0].error_message == "Leader election not needed for topic partition."


def test_all_partitions_report_only_what_was_tried(node: SimNode) -> None:
    node.create_topic("t", 2)
    node.create_topic("u")
    without_leader(node, "t")
    assert codes(elect(node, None, kind=1)) == {"t": {0: ErrorCode.none}, "u": {}}
    assert codes(elect(node, None)) == {"t": {}, "u": {}}


def test_an_unknown_kind_of_election(node: SimNode) -> None:
    node.create_topic("t")
    response = elect(node, {"t": [0]}, kind=9)
    assert response.error_code is ErrorCode.invalid_request
    assert codes(response) == {"t": {0: ErrorCode.invalid_request}}
    assert elect(node, None, kind=9).error_code is ErrorCode.invalid_request
