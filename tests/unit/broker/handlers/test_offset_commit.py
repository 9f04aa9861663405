"""OffsetCommit over the wire."""

from __future__ import annotations

import pytest

from crabka.broker.groups.opaque import OpaqueGroup, OpaqueType
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import keep_consumer_group
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator, group_states
from tests.support.nodes.sim_node import SimNode, versions_of


@pytest.fixture
def member(node: SimNode) -> NodeMember:
    """A member that may commit."""
    node.create_topic("t", 2)
    find_coordinator(node)
    return NodeMember(node)


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_COMMIT))
def test_a_commit_makes_a_simple_group(node: SimNode, member: NodeMember, version: int) -> None:
    assert member.commit(offset=7, version=version) is ErrorCode.none
    assert fetch_offset(node) == 7
    assert group_states(node) == {"g": ("Empty", "classic")}


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_COMMIT))
def test_what_does_not_exist_is_reported(member: NodeMember, version: int) -> None:
    unknown = ErrorCode.unknown_topic_id if version >= 10 else ErrorCode.unknown_topic_or_partition
    assert member.commit("nope", version=version) is unknown
    assert member.commit(partition=9, version=version) is ErrorCode.unknown_topic_or_partition


def test_metadata_has_a_limit(member: NodeMember) -> None:
    assert member.commit(metadata="x" * 4096) is ErrorCode.none
    assert member.commit(metadata="x" * 4097) is ErrorCode.offset_metadata_too_large


@pytest.mark.parametrize(
    ("version", "expected"), [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)]
)
def test_a_member_of_no_group_is_refused(member: NodeMember, version: int, expected: ErrorCode) -> None:
    assert member.commit(version=version, generation_id_or_member_epoch=1, member_id="m") is expected


def test_a_member_commits_in_its_generation_only(node: SimNode, member: NodeMember) -> None:
    member.stable()
    assert member.commit(offset=3) is ErrorCode.none
    assert fetch_offset(node) == 3
    assert member.commit(generation_id_or_member_epoch=9) is ErrorCode.illegal_generation
    assert NodeMember(node).commit() is ErrorCode.unknown_member_id


def test_a_client_may_say_how_long_an_offset_is_kept(node: SimNode, member: NodeMember) -> None:
    assert member.commit(version=4, retention_time=5000) is ErrorCode.none
    node.advance(4000)
    node.run(node.context.groups.expire_offsets())
    assert fetch_offset(node) == 5
    node.advance(1500)
    node.run(node.context.groups.expire_offsets())
    assert fetch_offset(node) == -1
    assert group_states(node) == {}


def test_without_a_coordinator_nothing_is_stored(node: SimNode) -> None:
    node.create_topic("t")
    assert NodeMember(node).commit() is ErrorCode.not_coordinator


def test_a_share_group_has_no_offsets(node: SimNode, member: NodeMember) -> None:
    group = OpaqueGroup("g", OpaqueType.SHARE)
    group.replay(b"key", "Metadata", deleted=False)
    node.context.groups.shard_of("g").shard.groups["g"] = group
    assert member.commit() is ErrorCode.group_id_not_found


@pytest.mark.parametrize(("members", "expected"), [((), ErrorCode.none), (("somebody",), ErrorCode.unknown_member_id)])
def test_a_consumer_group_takes_offsets_of_strangers_only_without_members(
    node: SimNode, member: NodeMember, members: tuple[str, ...], expected: ErrorCode
) -> None:
    keep_consumer_group(node, "g", *members)
    assert member.commit() is expected
