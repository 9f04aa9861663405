"""DescribeGroups over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, find_coordinator, subscription
from tests.support.nodes.sim_node import SimNode, versions_of


def ask(node: SimNode, version: int = 6, group_id: str = "g", *, operations: bool = False) -> Any:
    answer = node.ask(ApiKey.DESCRIBE_GROUPS, version, groups=(group_id,), include_authorized_operations=operations)
    (group,) = answer.groups
    assert group.group_id == group_id
    return group


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_GROUPS))
def test_a_stable_group_shows_members_and_assignments(node: SimNode, version: int) -> None:
    find_coordinator(node)
    member_id = NodeMember(node).stable()
    group = ask(node, version)
    assert (group.error_code, group.group_state) == (ErrorCode.none, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "sim", "/client")
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"all")


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_GROUPS))
def test_a_group_that_is_not_there_is_dead(node: SimNode, version: int) -> None:
    find_coordinator(node)
    group = ask(node, version)
    assert group.group_state == "Dead"
    assert group.error_code is (ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none)
    if version >= 6:
        assert group.error_message == "Group g not found."


def test_a_rebalance_hides_what_members_said(node: SimNode) -> None:
    find_coordinator(node)
    NodeMember(node).join()
    group = ask(node)
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_metadata == b""


def test_operations_are_notified_when_asked_for(node: SimNode) -> None:
    find_coordinator(node)
    NodeMember(node).stable()
    assert ask(node).authorized_operations == -(2**31)
    assert ask(node, operations=True).authorized_operations == 3400


def test_a_group_needs_a_name_and_a_coordinator(node: SimNode) -> None:
    assert ask(node, group_id="").error_code is ErrorCode.invalid_group_id
    assert ask(node).error_code is ErrorCode.not_coordinator
