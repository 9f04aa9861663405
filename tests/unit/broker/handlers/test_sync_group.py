"""SyncGroup over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, find_coordinator
from tests.support.nodes.sim_node import SimNode, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.SYNC_GROUP))
def test_the_leader_brings_the_assignment_and_gets_its_part(node: SimNode, version: int) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.join()
    answer = member.sync({member.member_id: b"mine"}, version)
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, b"mine")
    assert getattr(answer, "protocol_name", "range") == "range"
    assert member.sync(None, version).assignment == b"mine"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": "other"}, ErrorCode.unknown_member_id),
        ({"generation_id": 7}, ErrorCode.illegal_generation),
        ({"protocol_name": None}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_name": "other"}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_what_is_wrong_is_reported(node: SimNode, fields: dict[str, Any], expected: ErrorCode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.join()
    assert member.sync(**fields).error_code is expected


def test_while_groups_are_loaded_a_member_has_to_join_again(node: SimNode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.join()
    node.context.groups.shard_of("g").is_active = False
    assert member.sync().error_code is ErrorCode.rebalance_in_progress
