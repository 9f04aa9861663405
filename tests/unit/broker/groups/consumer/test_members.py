"""Members that come, report and go."""

from __future__ import annotations

import pytest

from crabka.broker.groups.consumer.settings import ConsumerSettings
from crabka.broker.groups.consumer.state import ConsumerGroupState
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import SETTINGS, ConsumerCore, owned, topic_id

T = topic_id(0)
ALL = {T: frozenset(range(4))}


def test_the_first_member_gets_everything_in_epoch_2() -> None:
    core = ConsumerCore()
    answer = core.beat("a", 0)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.none, "a", 2)
    assert answer.heartbeat_interval_ms == SETTINGS.heartbeat_interval_ms
    assert owned(answer) == ALL
    assert core.group.state is ConsumerGroupState.STABLE
    assert core.beat("a", 2).assignment is None


def test_a_second_member_gets_what_the_first_gave_up() -> None:
    core = ConsumerCore()
    core.beat("a", 0)
    second = core.beat("b", 0)
    assert owned(second) == {}
    reported = core.beat("a", 2, owned=ALL)
    assert (reported.member_epoch, owned(reported)) == (2, {T: frozenset({0, 1})})
    assert core.group.state.value == "Reconciling"
    assert core.beat("b", second.member_epoch).assignment is None
    assert core.beat("a", 2, owned={T: frozenset({0, 1})}).member_epoch == 3
    assert owned(core.beat("b", second.member_epoch)) == {T: frozenset({2, 3})}
    assert core.group.state is ConsumerGroupState.STABLE


def test_an_answer_that_got_lost_is_reported_again() -> None:
    core = ConsumerCore()
    core.beat("a", 0)
    core.beat("b", 0)
    half = {T: frozenset({0, 1})}
    core.beat("a", 2, owned=ALL)
    assert core.beat("a", 2, owned=half).member_epoch == 3
    assert core.beat("a", 2, owned=half).member_epoch == 3
    assert core.beat("a", 2, owned=ALL).error_code is ErrorCode.fenced_member_epoch
    assert core.beat("a", 9, owned=half).error_code is ErrorCode.fenced_member_epoch
    assert core.beat("who", 2).error_code is ErrorCode.unknown_member_id


def test_members_that_leave_or_are_silent_are_removed() -> None:
    core = ConsumerCore()
    core.beat("a", 0)
    core.beat("b", 0)
    assert core.beat("b", -1).member_epoch == -1
    assert set(core.group.data.members) == {"a"}
    core.pass_time(9_999)
    assert not core.group.is_empty
    core.pass_time(1)
    assert core.group.state is ConsumerGroupState.EMPTY


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    core = ConsumerCore()
    core.beat("a", 0, rebalance_timeout_ms=3_000)
    core.beat("b", 0)
    core.beat("a", 2, owned=ALL)
    core.pass_time(2_000)
    core.beat("a", 2, owned=ALL)
    core.pass_time(1_000)
    assert set(core.group.data.members) == {"b"}


def test_a_static_member_comes_back_to_its_place() -> None:
    core = ConsumerCore()
    core.beat("a", 0, instance_id="i")
    assert core.beat("b", 0, instance_id="i").error_code is ErrorCode.unreleased_instance_id
    assert core.beat("a", -2, instance_id="i").member_epoch == -2
    back = core.beat("b", 0, instance_id="i")
    assert (back.member_epoch, owned(back)) == (2, ALL)
    assert core.beat("a", 2, instance_id="i").error_code is ErrorCode.fenced_instance_id
    assert core.beat("x", 2, instance_id="other").error_code is ErrorCode.unknown_member_id


def test_a_static_member_that_stays_away_is_removed() -> None:
    core = ConsumerCore()
    core.beat("a", 0, instance_id="i")
    core.beat("a", -2, instance_id="i")
    core.pass_time(10_000)
    assert core.group.is_empty


def test_a_full_group_takes_no_other_member() -> None:
    core = ConsumerCore(settings=ConsumerSettings(max_size=1, assignment_interval_ms=0))
    core.beat("a", 0)
    assert core.beat("b", 0).error_code is ErrorCode.group_max_size_reached
    assert core.beat("a", 0).error_code is ErrorCode.none


@pytest.mark.parametrize("epoch", [-1, -2])
def test_strangers_cannot_leave(epoch: int) -> None:
    core = ConsumerCore()
    assert core.beat("a", epoch).error_code is ErrorCode.unknown_member_id
