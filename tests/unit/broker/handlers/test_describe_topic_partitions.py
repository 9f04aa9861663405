"""DescribeTopicPartitions over the wire: pages and cursors."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row, versions_of


def ask(node: SimNode, *names: str, limit: int = 2000, cursor: Any = None, version: int = 0) -> Any:
    return node.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        version,
        topics=[row("TopicRequest", name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS))
def test_a_topic_is_described(node: SimNode, version: int) -> None:
    created = node.create_topic("t", 2)
    (topic,) = ask(node, "t", version=version).topics
    assert (topic.name, topic.topic_id, topic.error_code) == ("t", created.topic_id, ErrorCode.none)
    assert [each.partition_index for each in topic.partitions] == [0, 1]
    first = topic.partitions[0]
    assert (first.leader_id, first.replica_nodes, first.isr_nodes, first.offline_replicas) == (1, (1,), (1,), ())


def test_missing_and_illegal_names_are_reported(node: SimNode) -> None:
    illegal, missing = ask(node, "missing", "a b").topics
    assert illegal.error_code is ErrorCode.invalid_topic_exception
    assert missing.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_pages_hold_everything_once(node: SimNode, limit: int) -> None:
    node.create_topic("b", 3)
    node.create_topic("a", 2)
    node.create_topic("c", 1)
    seen: list[tuple[str, int]] = []
    cursor: Any = None
    for _ in range(10):
        page = ask(node, limit=limit, cursor=cursor)
        rows = [(topic.name, each.partition_index) for topic in page.topics for each in topic.partitions]
        assert len(rows) <= limit
        seen += rows
        if page.next_cursor is None:
            break
        cursor = row("Cursor", topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
