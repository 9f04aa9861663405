"""Consumer groups on a node: made, upgraded, downgraded, restarted, and not stored."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import beat
from tests.support.coordinators.members import NodeMember, find_coordinator, group_states, subscription
from tests.support.moves.partitions import NO_LEADER, HeldWatermark, Posted, lead
from tests.support.nodes.sim_node import SimNode, row


@pytest.fixture(autouse=True)
def _topic(node: SimNode) -> None:
    node.create_topic("t", 4)
    find_coordinator(node)


def _classic_member(node: SimNode) -> NodeMember:
    member = NodeMember(node)
    protocol = row("JoinGroupRequestProtocol", name="range", metadata=subscription("t"))
    assert member.join(protocols=[protocol]).error_code is ErrorCode.none
    assert member.sync({member.member_id: b""}).error_code is ErrorCode.none
    return member


def test_a_group_is_the_same_after_a_restart(node: SimNode) -> None:
    epoch = beat(node, "m", 0).member_epoch
    assert group_states(node) == {"g": ("Stable", "consumer")}
    node.restart()
    node.advance(10)
    assert group_states(node) == {"g": ("Stable", "consumer")}
    assert beat(node, "m", epoch).error_code is ErrorCode.none


def test_silent_members_go(node: SimNode) -> None:
    beat(node, "m", 0)
    node.advance(46_000)
    assert group_states(node) == {"g": ("Empty", "consumer")}


def test_a_group_moves_to_the_consumer_protocol_and_back(node: SimNode) -> None:
    old = _classic_member(node)
    assert group_states(node)["g"] == ("Stable", "classic")
    epoch = beat(node, "m", 0).member_epoch
    assert epoch > old.generation
    assert isinstance(node.context.groups.group("g")[1], ConsumerGroup)
    assert old.heartbeat() is ErrorCode.rebalance_in_progress
    assert beat(node, "m", -1).error_code is ErrorCode.none
    group = node.context.groups.group("g")[1]
    assert isinstance(group, ClassicGroup)
    assert set(group.membership.members) == {old.member_id}


def test_a_report_that_is_refused_leaves_a_classic_group_as_it_is(node: SimNode) -> None:
    old = _classic_member(node)
    refused = beat(node, "m", 0, subscribed_topic_names=None, subscribed_topic_regex="(")
    assert refused.error_code is ErrorCode.invalid_regular_expression
    assert old.heartbeat() is ErrorCode.none


@pytest.mark.parametrize("was_classic", [False, True])
def test_a_group_that_cannot_be_stored_never_was(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, *, was_classic: bool
) -> None:
    if was_classic:
        _classic_member(node)

    def refuse(_hosted: Any, _pairs: Any, done: Any) -> None:
        done(ErrorCode.not_enough_replicas)

    monkeypatch.setattr(node.context.groups, "append", refuse)
    assert beat(node, "m", 0).error_code is ErrorCode.coordinator_not_available
    monkeypatch.undo()
    assert group_states(node) == ({"g": ("Stable", "classic")} if was_classic else {})


def test_a_group_of_another_kind_or_none_takes_no_reports(node: SimNode) -> None:
    assert beat(node, "m", 3).error_code is ErrorCode.group_id_not_found
    assert node.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=()).groups == ()


# -- replication that takes its time -----------------------------------------------------------------------------


def hold(node: SimNode) -> HeldWatermark:
    return HeldWatermark(node, node.context.groups.shard_of("g").partition)


def post_beat(node: SimNode, member_id: str, epoch: int) -> Posted:
    joining = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    silent = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
    return Posted(
        node,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        instance_id=None,
        rack_id=None,
        server_assignor=None,
        subscribed_topic_regex=None,
        **(joining if epoch == 0 else silent),
    )


def described(node: SimNode) -> tuple[int, list[str]]:
    answer = node.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"], include_authorized_operations=False).groups[0]
    return answer.group_epoch, [member.member_id for member in answer.members]


def test_reports_that_come_while_records_are_on_their_way_are_answered_in_turn(node: SimNode) -> None:
    epoch = beat(node, "a", 0).member_epoch
    held = hold(node)
    joins = [post_beat(node, name, 0) for name in ("b", "c")]
    report = post_beat(node, "a", epoch)
    assert not any(each.is_answered for each in (*joins, report))
    assert described(node) == (epoch, ["a"])
    for _ in range(5):
        held.advance()
    assert [each.answer().error_code for each in (*joins, report)] == [ErrorCode.none] * 3
    held.let_go()
    assert sorted(described(node)[1]) == ["a", "b", "c"]


def test_a_join_that_takes_too_long_is_still_on_its_way(node: SimNode) -> None:
    epoch = beat(node, "a", 0).member_epoch
    held = hold(node)
    join = post_beat(node, "b", 0)
    waiting = post_beat(node, "a", epoch)
    node.advance(5_000)
    assert join.answer().error_code is ErrorCode.coordinator_not_available
    assert waiting.answer().error_code is ErrorCode.coordinator_not_available
    group = node.context.groups.group("g")[1]
    assert isinstance(group, ConsumerGroup)
    assert not group._deferred
    held.let_go()
    assert described(node) == (epoch + 1, ["a", "b"])
    # Who asks again is known.
    assert beat(node, "b", 0).error_code is ErrorCode.none
    assert described(node)[1] == ["a", "b"]


def test_members_that_report_live_on_however_long_it_takes(node: SimNode) -> None:
    epoch = beat(node, "a", 0).member_epoch
    held = hold(node)
    post_beat(node, "b", 0)
    for _ in range(20):
        post_beat(node, "a", epoch)
        node.advance(5_000)
    held.let_go()
    node.advance(100)
    assert "a" in described(node)[1]
    node.advance(46_000)
    assert described(node)[1] == []


def test_a_move_is_reported_to_all_who_wait(node: SimNode) -> None:
    epoch = beat(node, "a", 0).member_epoch
    held = hold(node)
    join, report = post_beat(node, "b", 0), post_beat(node, "a", epoch)
    lead(node, held.partition, NO_LEADER)
    assert join.answer().error_code is ErrorCode.not_coordinator
    assert report.answer().error_code is ErrorCode.not_coordinator
    # What was not replicated is lost with the leader.
    held.partition.log.truncation.truncate_to(held.partition.log.high_watermark)
    held.let_go()
    lead(node, held.partition, 1)
    node.advance(10)
    assert described(node) == (epoch, ["a"])
    assert beat(node, "a", epoch).error_code is ErrorCode.none


def test_an_empty_consumer_group_gives_way_when_that_is_replicated(node: SimNode) -> None:
    beat(node, "a", 0)
    beat(node, "a", -1)
    held = hold(node)
    late = NodeMember(node)
    late.post_join()
    node.advance(5_100)
    assert late.joined().error_code is ErrorCode.coordinator_not_available
    moved = NodeMember(node)
    held.let_go()
    moved.stable()
    assert group_states(node) == {"g": ("Stable", "classic")}


def test_who_waits_for_a_group_to_give_way_is_notified_of_a_move(node: SimNode) -> None:
    beat(node, "a", 0)
    beat(node, "a", -1)
    held = hold(node)
    member = NodeMember(node)
    member.post_join()
    node.advance(20)
    lead(node, held.partition, NO_LEADER)
    assert member.joined().error_code in (ErrorCode.not_coordinator, ErrorCode.coordinator_not_available)


def test_members_of_a_group_that_is_handed_over_stay_in_it(node: SimNode) -> None:
    old = _classic_member(node)
    beat(node, "m", 0)
    assert old.join().error_code is ErrorCode.none
    held = hold(node)
    leaving = post_beat(node, "m", -1)
    hosted, group = node.context.groups.group("g")
    # The records that make it a classic group are on their way: it has no members any more, and has them still.
    assert isinstance(group, ConsumerGroup)
    assert not group.data.members
    assert not group.is_empty
    deletion = Posted(node, ApiKey.DELETE_GROUPS, 2, groups_names=("g",))
    assert deletion.answer().results[0].error_code is ErrorCode.non_empty_group
    joining = NodeMember(node)
    joining.post_join()
    node.advance(20)
    assert hosted.shard.groups["g"] is group
    group.offset_checks.commit(old.member_id, old.generation, 9)
    with pytest.raises(OperationError):
        group.offset_checks.commit("nobody", old.generation, 9)
    held.let_go()
    assert leaving.answer().error_code is ErrorCode.none
    classic = node.context.groups.group("g")[1]
    assert isinstance(classic, ClassicGroup)
    assert old.member_id in classic.membership.members
    assert joining.joined().error_code is ErrorCode.member_id_required
