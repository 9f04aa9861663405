"""JoinGroup over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crabka.broker.groups.opaque import OpaqueGroup, OpaqueType
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import keep_consumer_group
from tests.support.coordinators.members import NodeMember, find_coordinator, group_states
from tests.support.nodes.sim_node import SimNode, versions_of


@pytest.fixture
def node() -> Iterator[SimNode]:
    """A node that waits for more members, as Kafka does."""
    with SimNode({"group.initial.rebalance.delay.ms": "3000"}) as running:
        yield running


@pytest.mark.parametrize("version", versions_of(ApiKey.JOIN_GROUP))
def test_a_member_joins_after_the_initial_delay(node: SimNode, version: int) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    started = node.clock.now_ms()
    answer = member.join(version)
    assert node.clock.now_ms() - started >= 3000
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (ErrorCode.none, 1, "range")
    assert answer.leader == answer.member_id == answer.members[0].member_id
    assert answer.member_id.startswith("sim-")


@pytest.mark.parametrize("version", versions_of(ApiKey.JOIN_GROUP))
def test_an_id_is_asked_for_from_version_4_on(node: SimNode, version: int) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.post_join(version)
    answer = member.joined(version)
    if version < 4:
        assert answer.error_code is ErrorCode.none
    else:
        assert answer.error_code is ErrorCode.member_id_required
        assert answer.protocol_name == (None if version >= 7 else "")


def test_two_members_meet_in_one_generation(node: SimNode) -> None:
    find_coordinator(node)
    members = [NodeMember(node), NodeMember(node)]
    for member in members:
        member.post_join(3)
    first, second = (member.joined(3) for member in members)
    assert first.generation_id == second.generation_id == 1
    assert sorted(len(each.members) for each in (first, second)) == [0, 2]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"session_timeout": 5999}, ErrorCode.invalid_session_timeout),
        ({"session_timeout": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"member_id": "who"}, ErrorCode.unknown_member_id),
        ({"protocols": []}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_what_is_wrong_is_reported(node: SimNode, fields: dict[str, Any], expected: ErrorCode) -> None:
    find_coordinator(node)
    assert NodeMember(node).join(**fields).error_code is expected
    assert group_states(node) == {}


def test_without_a_coordinator_joins_are_refused(node: SimNode) -> None:
    assert NodeMember(node).join().error_code is ErrorCode.not_coordinator


def test_a_share_group_stays_what_it_is(node: SimNode) -> None:
    find_coordinator(node)
    group = OpaqueGroup("g", OpaqueType.SHARE)
    group.replay(b"\0\13\0\1g", "Metadata", deleted=False)
    node.context.groups.shard_of("g").shard.groups["g"] = group
    assert NodeMember(node).join().error_code is ErrorCode.inconsistent_group_protocol
    assert group_states(node)["g"][1] == "share"


def test_a_consumer_group_without_members_becomes_classic(node: SimNode) -> None:
    find_coordinator(node)
    keep_consumer_group(node, "g")
    assert group_states(node)["g"] == ("Empty", "consumer")
    assert NodeMember(node).join().error_code is ErrorCode.none
    assert group_states(node)["g"][1] == "classic"


def test_a_stop_answers_members_that_wait(node: SimNode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.post_join(3)
    node.advance(100)
    node.stop()
    assert member.joined(3).error_code is ErrorCode.not_coordinator
