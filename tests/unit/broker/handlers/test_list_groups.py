"""ListGroups over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.broker.groups.opaque import OpaqueGroup, OpaqueType
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, find_coordinator
from tests.support.nodes.sim_node import SimNode, versions_of


def ask(node: SimNode, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
    return node.ask(ApiKey.LIST_GROUPS, version, states_filter=states, types_filter=types)


def names(answer: Any) -> set[str]:
    return {each.group_id for each in answer.groups}


@pytest.fixture
def groups(node: SimNode) -> SimNode:
    """A node with a group that runs, a simple one and one that is only kept."""
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node, "runs").stable()
    NodeMember(node, "simple").commit()
    for name, kind in (("kept", OpaqueType.SHARE), ("ghost", OpaqueType.STREAMS)):
        group = OpaqueGroup(name, kind)
        group.replay(b"key", "Metadata" if name == "kept" else "Topology", deleted=False)
        node.context.groups.shard_of(name).shard.groups[name] = group
    return node


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_GROUPS))
def test_all_groups_are_listed(groups: SimNode, version: int) -> None:
    rows = {each.group_id: each for each in ask(groups, version).groups}
    assert set(rows) == {"runs", "simple", "kept"}
    assert [rows[each].protocol_type for each in ("runs", "simple", "kept")] == ["consumer", "", "share"]
    if version >= 4:
        assert [rows[each].group_state for each in ("runs", "simple", "kept")] == ["Stable", "Empty", "Empty"]
    if version >= 5:
        assert [rows[each].group_type for each in ("runs", "simple", "kept")] == ["classic", "classic", "share"]


def test_states_and_types_are_filtered_whatever_their_case(groups: SimNode) -> None:
    assert names(ask(groups, 4, ("stable",))) == {"runs"}
    assert names(ask(groups, 5, ("Empty",), ("CLASSIC",))) == {"simple"}
    assert names(ask(groups, 5, (), ("Share", "Consumer"))) == {"kept"}
    assert names(ask(groups, 5, (), ("other",))) == set()


def test_a_list_that_is_not_complete_is_not_given(groups: SimNode) -> None:
    groups.context.groups.shard_of("runs").is_active = False
    answer = ask(groups)
    assert (answer.error_code, answer.groups) == (ErrorCode.coordinator_load_in_progress, ())
