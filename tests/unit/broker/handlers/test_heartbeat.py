"""Heartbeat over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import SESSION_MS, NodeMember, find_coordinator, group_states
from tests.support.nodes.sim_node import SimNode, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.HEARTBEAT))
def test_heartbeats_keep_a_session(node: SimNode, version: int) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.stable()
    for _ in range(4):
        node.advance(SESSION_MS * 0.9)
        assert member.heartbeat(version) is ErrorCode.none
    node.advance(SESSION_MS + 10)
    assert group_states(node) == {"g": ("Empty", "classic")}
    assert member.heartbeat(version) is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": "other"}, ErrorCode.unknown_member_id),
        ({"generation_id": 9}, ErrorCode.illegal_generation),
        ({"group_instance_id": "who"}, ErrorCode.unknown_member_id),
    ],
)
def test_what_is_wrong_is_reported(node: SimNode, fields: dict[str, Any], expected: ErrorCode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.stable()
    assert member.heartbeat(**fields) is expected


def test_all_is_well_while_groups_are_loaded(node: SimNode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.stable()
    node.context.groups.shard_of("g").is_active = False
    assert member.heartbeat() is ErrorCode.none


def test_without_a_coordinator_a_member_has_to_look_elsewhere(node: SimNode) -> None:
    assert NodeMember(node).heartbeat() is ErrorCode.not_coordinator
