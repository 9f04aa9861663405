"""LeaveGroup over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, find_coordinator, group_states
from tests.support.nodes.sim_node import SimNode, row, versions_of


def leave(node: SimNode, version: int, *members: tuple[str, str | None], group_id: str = "g") -> Any:
    if version < 3:
        return node.ask(ApiKey.LEAVE_GROUP, version, group_id=group_id, member_id=members[0][0])
    rows = [
        row("MemberIdentity", member_id=each, group_instance_id=instance, reason=None) for each, instance in members
    ]
    return node.ask(ApiKey.LEAVE_GROUP, version, group_id=group_id, members=rows)


@pytest.mark.parametrize("version", versions_of(ApiKey.LEAVE_GROUP))
def test_the_last_member_leaves_an_empty_group(node: SimNode, version: int) -> None:
    find_coordinator(node)
    member_id = NodeMember(node).stable()
    answer = leave(node, version, (member_id, None))
    assert answer.error_code is ErrorCode.none
    if version >= 3:
        assert [(each.member_id, each.error_code) for each in answer.members] == [(member_id, ErrorCode.none)]
    assert group_states(node) == {"g": ("Empty", "classic")}


@pytest.mark.parametrize("version", versions_of(ApiKey.LEAVE_GROUP))
@pytest.mark.parametrize("group_id", ["g", "other"])
def test_a_stranger_is_unknown(node: SimNode, version: int, group_id: str) -> None:
    find_coordinator(node)
    NodeMember(node).stable()
    answer = leave(node, version, ("who", None), group_id=group_id)
    reported = answer.error_code if version < 3 else answer.members[0].error_code
    assert reported is ErrorCode.unknown_member_id


def test_many_leave_at_once(node: SimNode) -> None:
    find_coordinator(node)
    static = NodeMember(node, instance_id="i")
    static.stable()
    answer = leave(node, 5, ("", "i"), ("", "nobody"))
    assert [each.error_code for each in answer.members] == [ErrorCode.none, ErrorCode.unknown_member_id]


def test_a_group_needs_a_name_and_a_coordinator(node: SimNode) -> None:
    assert leave(node, 5, ("m", None), group_id="").error_code is ErrorCode.invalid_group_id
    assert leave(node, 5, ("m", None)).error_code is ErrorCode.not_coordinator
