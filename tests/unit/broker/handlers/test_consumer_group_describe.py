"""ConsumerGroupDescribe over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import beat
from tests.support.coordinators.members import NodeMember, find_coordinator
from tests.support.nodes.sim_node import SimNode, versions_of


def describe(node: SimNode, group_id: str, version: int = 1) -> Any:
    body = {"group_ids": [group_id], "include_authorized_operations": False}
    (group,) = node.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, **body).groups
    return group


@pytest.mark.parametrize("version", versions_of(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_a_group_is_described_with_its_members(node: SimNode, version: int) -> None:
    node.create_topic("t", 2)
    find_coordinator(node)
    beat(node, "m", 0, instance_id="i")
    group = describe(node, "g", version)
    assert (group.error_code, group.group_state, group.group_epoch) == (ErrorCode.none, "Stable", 2)
    assert (group.assignment_epoch, group.assignor_name) == (2, "uniform")
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.member_epoch) == ("m", "i", 2)
    assert member.subscribed_topic_names == ("t",)
    for assignment in (member.assignment, member.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (topic.topic_name, topic.partitions) == ("t", (0, 1))
    assert getattr(member, "member_type", 1) == 1


def test_other_groups_are_not_described(node: SimNode) -> None:
    assert describe(node, "g").error_code is ErrorCode.not_coordinator
    find_coordinator(node)
    assert describe(node, "").error_code is ErrorCode.invalid_group_id
    assert describe(node, "g").error_code is ErrorCode.group_id_not_found
    NodeMember(node).stable()
    group = describe(node, "g")
    assert (group.error_code, group.error_message) == (ErrorCode.group_id_not_found, "Group g is not a consumer group.")
