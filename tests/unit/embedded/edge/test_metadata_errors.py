"""Errors of topics in Metadata responses."""

from __future__ import annotations

import pytest

from crabka.embedded.edge.edge import Edge
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row

NO_OPERATIONS = dict.fromkeys(("include_topic_authorized_operations", "include_cluster_authorized_operations"), False)


def ask(node: SimNode, *names: str, version: int = 12) -> list[tuple[str, int, list[tuple[int, int]]]]:
    topics = [row("MetadataRequestTopic", name=name, topic_id=None) for name in names] if names else None
    answer = node.ask(ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=False, **NO_OPERATIONS)
    assert [broker.node_id for broker in answer.brokers] == [1]
    return [
        (topic.name, int(topic.error_code), [(each.partition_index, int(each.error_code)) for each in topic.partitions])
        for topic in answer.topics
    ]


def test_a_topic_fails_and_the_brokers_stay_known(node: SimNode, edge: Edge) -> None:
    node.create_topic("a")
    node.create_topic("b")
    edge.faults.fail_next("Metadata", "LEADER_NOT_AVAILABLE", topic="a")
    assert ask(node, "b") == [("b", 0, [(0, 0)])]
    assert ask(node, "a", "b") == [("a", int(ErrorCode.leader_not_available), []), ("b", 0, [(0, 0)])]
    assert ask(node, "a", "b") == [("a", 0, [(0, 0)]), ("b", 0, [(0, 0)])]


def test_a_partition_fails(node: SimNode, edge: Edge) -> None:
    node.create_topic("a", 2)
    edge.faults.fail_next("Metadata", "LEADER_NOT_AVAILABLE", partition=1)
    assert ask(node) == [("a", 0, [(0, 0), (1, 5)])]


@pytest.mark.parametrize(("version", "code"), [(13, 129), (12, 0)])
def test_a_client_is_asked_to_bootstrap_again_where_the_version_can(
    node: SimNode, edge: Edge, version: int, code: int
) -> None:
    edge.faults.fail_next("Metadata", "REBOOTSTRAP_REQUIRED")
    answer = node.ask(ApiKey.METADATA, version, topics=None, allow_auto_topic_creation=False, **NO_OPERATIONS)
    assert int(getattr(answer, "error_code", 0)) == code
