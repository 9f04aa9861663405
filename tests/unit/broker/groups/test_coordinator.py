"""The coordinator on a whole node: restarts, crashes, expiry, deleted topics, slow replication, moves."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import NodeMember, fetch_offset, find_coordinator, group_states
from tests.support.moves.partitions import NO_LEADER, HeldWatermark, Posted, lead
from tests.support.nodes.sim_node import SimNode, row


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


# -- replication that takes its time -----------------------------------------------------------------------------


@pytest.fixture
def held(node: SimNode) -> HeldWatermark:
    """The partition of the group `g`, with a follower."""
    node.create_topic("t")
    find_coordinator(node)
    return HeldWatermark(node, node.context.groups.shard_of("g").partition)


def post_commit(node: SimNode, offset: int, member: NodeMember | None = None) -> Posted:
    partition = row(
        "OffsetCommitRequestPartition",
        partition_index=0,
        committed_offset=offset,
        committed_leader_epoch=2,
        committed_metadata="m",
    )
    return Posted(
        node,
        ApiKey.OFFSET_COMMIT,
        9,
        group_id="g",
        generation_id_or_member_epoch=member.generation if member is not None else -1,
        member_id=member.member_id if member is not None else "",
        group_instance_id=None,
        topics=[row("OffsetCommitRequestTopic", name="t", partitions=[partition])],
    )


def post_sync(node: SimNode, member: NodeMember, assignments: dict[str, bytes]) -> Posted:
    rows = [row("SyncGroupRequestAssignment", member_id=key, assignment=value) for key, value in assignments.items()]
    return Posted(
        node,
        ApiKey.SYNC_GROUP,
        5,
        group_id="g",
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=rows,
    )


def code_of(commit: Posted) -> ErrorCode:
    return ErrorCode(commit.answer().topics[0].partitions[0].error_code)


def test_a_commit_counts_when_it_is_replicated(node: SimNode, held: HeldWatermark) -> None:
    first, second = post_commit(node, 5), post_commit(node, 6)
    assert not any(each.is_answered for each in (first, second))
    assert fetch_offset(node) == -1
    held.advance()
    assert (code_of(first), code_of(second)) == (ErrorCode.none, ErrorCode.none)
    assert fetch_offset(node) == 6


def test_a_commit_that_takes_too_long_counts_later(node: SimNode, held: HeldWatermark) -> None:
    commit = post_commit(node, 5)
    node.advance(5_000)
    assert code_of(commit) is ErrorCode.coordinator_not_available
    assert fetch_offset(node) == -1
    held.advance()
    assert fetch_offset(node) == 5


def test_commits_that_wait_are_notified_that_the_coordinator_moved(node: SimNode, held: HeldWatermark) -> None:
    commit = post_commit(node, 5)
    lead(node, held.partition, NO_LEADER)
    assert code_of(commit) is ErrorCode.not_coordinator


def test_syncs_that_wait_are_notified_that_the_coordinator_moved(node: SimNode) -> None:
    find_coordinator(node)
    leader, follower = NodeMember(node), NodeMember(node)
    leader.stable()
    follower.post_join()
    follower.joined()
    follower.post_join()
    leader.post_join()
    assert leader.joined().leader == leader.member_id
    follower.joined()
    waiting = post_sync(node, follower, {})
    assert not waiting.is_answered
    lead(node, node.context.groups.shard_of("g").partition, NO_LEADER)
    assert waiting.answer().error_code is ErrorCode.not_coordinator
    assert follower.heartbeat() is ErrorCode.not_coordinator


def test_joins_that_wait_are_notified_that_the_coordinator_moved(node: SimNode) -> None:
    find_coordinator(node)
    NodeMember(node).stable()
    member = NodeMember(node)
    member.post_join()
    member.joined()
    member.post_join()
    node.advance(20)
    lead(node, node.context.groups.shard_of("g").partition, NO_LEADER)
    assert member.joined().error_code is ErrorCode.not_coordinator


def test_an_assignment_is_handed_out_when_it_is_replicated(node: SimNode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.join()
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    sync = post_sync(node, member, {member.member_id: b"all"})
    assert member.heartbeat() is ErrorCode.none
    assert not sync.is_answered
    held.advance()
    assert sync.answer().assignment == b"all"
    assert group_states(node) == {"g": ("Stable", "classic")}


def test_an_assignment_that_takes_too_long_is_given_up(node: SimNode) -> None:
    find_coordinator(node)
    member = NodeMember(node)
    member.join()
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    sync = post_sync(node, member, {member.member_id: b"all"})
    node.advance(5_000)
    assert sync.answer().error_code is ErrorCode.coordinator_not_available
    assert member.heartbeat() is ErrorCode.rebalance_in_progress
    held.let_go()
    member.stable()
    assert member.generation == 2


def test_a_static_member_that_comes_back_is_notified_that_the_coordinator_moved(node: SimNode) -> None:
    find_coordinator(node)
    NodeMember(node, instance_id="i").stable()
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    back = NodeMember(node, instance_id="i")
    back.post_join()
    node.advance(20)
    lead(node, held.partition, NO_LEADER)
    assert back.joined().error_code is ErrorCode.not_coordinator


def test_members_have_a_whole_session_after_a_long_load(node: SimNode) -> None:
    find_coordinator(node)
    node.create_topic("t")
    member = NodeMember(node)
    member.stable()
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    post_commit(node, 5, member)
    lead(node, held.partition, NO_LEADER)
    lead(node, held.partition, 1)
    node.advance(60_000)
    # While groups are loaded all is well.
    assert member.heartbeat() is ErrorCode.none
    held.advance()
    node.advance(9_000)
    assert member.heartbeat() is ErrorCode.none
    assert group_states(node) == {"g": ("Stable", "classic")}
    node.advance(11_000)
    assert group_states(node) == {"g": ("Empty", "classic")}


def test_state_that_was_never_replicated_is_not_kept(node: SimNode, held: HeldWatermark) -> None:
    commit = post_commit(node, 5)
    lead(node, held.partition, NO_LEADER)
    assert code_of(commit) is ErrorCode.not_coordinator
    # The new leader did not have the record.
    held.partition.log.truncation.truncate_to(0)
    held.let_go()
    lead(node, held.partition, 1)
    node.advance(10)
    assert fetch_offset(node) == -1
    assert group_states(node) == {}


def test_a_deletion_that_takes_too_long_is_still_on_its_way(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node).commit()
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    deletion = Posted(node, ApiKey.DELETE_GROUPS, 2, groups_names=("g",))
    node.advance(5_000)
    assert deletion.answer().results[0].error_code is ErrorCode.coordinator_not_available
    held.advance()
    assert group_states(node) == {}
    assert fetch_offset(node) == -1


def test_offsets_are_deleted_when_their_tombstones_are_replicated(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node).commit()
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    partition = row("OffsetDeleteRequestPartition", partition_index=0)
    topics = [row("OffsetDeleteRequestTopic", name="t", partitions=[partition])]
    deletion = Posted(node, ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    assert fetch_offset(node) == 5
    node.advance(5_000)
    assert deletion.answer().error_code is ErrorCode.coordinator_not_available
    held.advance()
    assert fetch_offset(node) == -1


def test_nothing_is_appended_for_a_shard_that_is_gone(node: SimNode, held: HeldWatermark) -> None:
    hosted = node.context.groups.shard_of("g")
    lead(node, held.partition, NO_LEADER)
    lead(node, held.partition, 1)
    end = held.partition.log.log_end_offset
    reported = node.run(node.context.groups.append_and_wait(hosted, [(b"k", b"v")]))
    assert reported is ErrorCode.not_leader_or_follower
    assert held.partition.log.log_end_offset == end


def test_a_group_is_removed_with_commits_that_were_on_their_way(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node).commit(offset=4)
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    commit = post_commit(node, 5)
    deletion = Posted(node, ApiKey.DELETE_GROUPS, 2, groups_names=("g",))
    held.let_go()
    assert code_of(commit) is ErrorCode.none
    assert deletion.answer().results[0].error_code is ErrorCode.none
    assert fetch_offset(node) == -1
    node.restart()
    node.advance(10)
    assert fetch_offset(node) == -1


def test_an_offset_does_not_expire_under_a_commit(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    NodeMember(node).commit(offset=4)
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    week_ms = node.context.config.offsets_retention_minutes * 60_000
    commit = post_commit(node, 5)
    shard = node.context.groups.shard_of("g").shard
    later_ms = node.clock.now_ms() + 2 * week_ms
    assert shard.expired("g", later_ms, week_ms) == ([], False)
    held.let_go()
    assert code_of(commit) is ErrorCode.none
    assert shard.expired("g", later_ms, week_ms) == ([("t", 0)], True)
