"""The coordinator on a whole node: restarts, crashes, expiry, deleted topics."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.groups import NodeMember, fetch_offset, find_coordinator, group_states
from tests.support.sim_node import SimNode


@pytest.mark.parametrize("clean", [True, False])
def test_groups_and_offsets_survive_a_restart(clean: bool) -> None:
    with SimNode({"log.flush.interval.messages": "1"}) as node:
        node.create_topic("t")
        find_coordinator(node)
        member = NodeMember(node)
        member.stable()
        assert member.commit(offset=42) is ErrorCode.none
        NodeMember(node, "simple").commit(offset=7)
        if clean:
            node.restart()
        else:
            node.crash()
            node.start()
        node.advance(10)
        assert group_states(node) == {"g": ("Stable", "classic"), "simple": ("Empty", "classic")}
        assert fetch_offset(node) == 42
        assert fetch_offset(node, group_id="simple") == 7
        # The member does not notice: its id, its generation and its assignment are still good.
        member.client = node.connect()
        assert member.heartbeat() is ErrorCode.none
        assert member.sync().assignment == b"all"


def test_offsets_of_a_deleted_topic_are_gone_for_good(node: SimNode) -> None:
    for topic in ("t", "u"):
        node.create_topic(topic)
    find_coordinator(node)
    for topic in ("t", "u"):
        NodeMember(node).commit(topic)
    node.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=1000)
    assert (fetch_offset(node, "t"), fetch_offset(node, "u")) == (-1, 5)
    node.restart()
    assert (fetch_offset(node, "t"), fetch_offset(node, "u")) == (-1, 5)


def test_offsets_expire_by_themselves_and_their_group_with_them() -> None:
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    with SimNode(settings) as node:
        node.create_topic("t")
        find_coordinator(node)
        NodeMember(node).commit()
        node.advance(58_000)
        assert fetch_offset(node) == 5
        node.advance(4_000)
        assert fetch_offset(node) == -1
        assert group_states(node) == {}
        node.restart()
        assert group_states(node) == {}


def test_deleting_the_offsets_topic_ends_its_groups(node: SimNode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.stable()
    node.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["__consumer_offsets"], timeout=1000)
    assert member.heartbeat() is ErrorCode.not_coordinator
    find_coordinator(node)
    assert member.heartbeat() is ErrorCode.unknown_member_id


def test_a_group_whose_deletion_fails_is_still_there(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node).commit()
    partition = node.context.groups.shard_of("g").partition
    partition.in_sync_count = 0
    answer = node.ask(ApiKey.DELETE_GROUPS, 2, groups_names=("g",))
    assert answer.results[0].error_code is ErrorCode.coordinator_not_available
    assert fetch_offset(node) == 5
    assert group_states(node) == {"g": ("Empty", "classic")}


def test_a_static_member_restarts_without_a_rebalance(node: SimNode) -> None:
    find_coordinator(node)
    first = NodeMember(node, instance_id="i")
    first.stable()
    back = NodeMember(node, instance_id="i")
    answer = back.join()
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (ErrorCode.none, 1, True)
    assert back.sync().assignment == b"all"
    assert first.heartbeat() is ErrorCode.fenced_instance_id


def test_a_full_group_refuses_the_next() -> None:
    with SimNode({"group.max.size": "1"}) as node:
        find_coordinator(node)
        NodeMember(node).stable()
        assert NodeMember(node).join().error_code is ErrorCode.group_max_size_reached
