"""DeleteGroups over the wire."""

from __future__ import annotations

import pytest

from crabka.broker.groups.opaque import OpaqueGroup, OpaqueType
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import keep_consumer_group
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator, group_states
from tests.support.nodes.sim_node import SimNode, versions_of


def delete(node: SimNode, *groups: str, version: int = 2) -> list[ErrorCode]:
    answer = node.ask(ApiKey.DELETE_GROUPS, version, groups_names=groups)
    assert [each.group_id for each in answer.results] == list(groups)
    return [ErrorCode(each.error_code) for each in answer.results]


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_GROUPS))
def test_a_group_goes_with_its_offsets_for_good(node: SimNode, version: int) -> None:
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node).commit()
    NodeMember(node, "other").commit()
    assert delete(node, "g", version=version) == [ErrorCode.none]
    for _ in range(2):
        assert set(group_states(node)) == {"other"}
        assert fetch_offset(node) == -1
        node.restart()
        node.advance(10)


def test_a_group_with_members_stays(node: SimNode) -> None:
    find_coordinator(node)
    NodeMember(node).stable()
    assert delete(node, "g", "nobody", "") == [
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
        ErrorCode.invalid_group_id,
    ]


def test_consumer_groups_go_and_share_groups_stay(node: SimNode) -> None:
    find_coordinator(node)
    keep_consumer_group(node, "consumer")
    group = OpaqueGroup("share", OpaqueType.SHARE)
    group.replay(b"key", "Metadata", deleted=False)
    node.context.groups.shard_of("share").shard.groups["share"] = group
    assert delete(node, "consumer", "share") == [ErrorCode.none, ErrorCode.group_id_not_found]
    assert set(group_states(node)) == {"share"}


def test_without_a_coordinator_nothing_goes(node: SimNode) -> None:
    assert delete(node, "g") == [ErrorCode.not_coordinator]
