"""OffsetDelete over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator
from tests.support.nodes.sim_node import SimNode, row, versions_of


def delete(node: SimNode, topic: str = "t", partition: int = 0, group_id: str = "g", version: int = 0) -> Any:
    partitions = [row("OffsetDeleteRequestPartition", partition_index=partition)]
    topics = [row("OffsetDeleteRequestTopic", name=topic, partitions=partitions)]
    return node.ask(ApiKey.OFFSET_DELETE, version, group_id=group_id, topics=topics)


def error_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_DELETE))
def test_an_offset_is_gone_for_good(node: SimNode, version: int) -> None:
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node).commit()
    assert error_of(delete(node, version=version)) is ErrorCode.none
    assert fetch_offset(node) == -1
    node.restart()
    assert fetch_offset(node) == -1


def test_topics_that_members_read_are_spared(node: SimNode) -> None:
    node.create_topic("t")
    node.create_topic("u")
    find_coordinator(node)
    member = NodeMember(node)
    member.stable()
    assert member.commit("u") is ErrorCode.none
    assert error_of(delete(node, "t")) is ErrorCode.group_subscribed_to_topic
    assert error_of(delete(node, "u")) is ErrorCode.none


def test_a_group_of_another_kind_must_be_empty(node: SimNode) -> None:
    find_coordinator(node)
    NodeMember(node).join(protocol_type="connect")
    assert delete(node).error_code is ErrorCode.non_empty_group


def test_what_does_not_exist_is_reported(node: SimNode) -> None:
    assert delete(node).error_code is ErrorCode.not_coordinator
    find_coordinator(node)
    assert delete(node, group_id="").error_code is ErrorCode.invalid_group_id
    assert delete(node).error_code is ErrorCode.group_id_not_found
    node.create_topic("t")
    NodeMember(node).commit()
    assert error_of(delete(node, "nope")) is ErrorCode.unknown_topic_or_partition
    assert error_of(delete(node, partition=4)) is ErrorCode.unknown_topic_or_partition
