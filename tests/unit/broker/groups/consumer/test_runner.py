"""Consumer groups on a node: made, upgraded, downgraded, restarted, and not stored."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import beat
from tests.support.groups import NodeMember, find_coordinator, group_states, subscription
from tests.support.sim_node import SimNode, row


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
    assert set(group.members) == {old.member_id}


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
