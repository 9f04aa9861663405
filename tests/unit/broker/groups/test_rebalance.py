"""Rebalances and time."""

from __future__ import annotations

from crabka.broker.groups.membership import GroupState
from crabka.broker.groups.messages import MemberIdentity
from crabka.protocol.error_codes import ErrorCode
from tests.support.groups import REBALANCE_MS, SESSION_MS, CoreDriver


def test_the_first_rebalance_waits_for_members_that_start_together() -> None:
    core = CoreDriver(initial_rebalance_delay_ms=3000)
    assert core.join("a") is None
    core.pass_time(2000)
    assert core.join("b") is None
    core.pass_time(3999)
    assert "a" not in core.answers
    core.pass_time(1)
    assert core.answers["a"].generation == core.answers["b"].generation == 1


def test_the_first_rebalance_is_not_prolonged_beyond_the_rebalance_timeout() -> None:
    core = CoreDriver(initial_rebalance_delay_ms=3000)
    for number in range(8):
        core.join(number, rebalance_timeout_ms=7000)
        core.pass_time(1000)
    assert core.answers[0].generation == 1


def test_members_that_do_not_join_again_in_time_are_dropped() -> None:
    core = CoreDriver()
    leader, other = core.stable("a", "b")
    core.join("c")
    core.join("again", other)
    for second in range(REBALANCE_MS // 1000):
        if leader in core.group.membership.members:
            core.heartbeat(("h", second), leader)
        core.pass_time(1000)
    assert core.answers["again"].error_code is ErrorCode.none
    assert leader not in core.group.membership.members
    assert core.group.membership.leader_id == other


def test_static_members_that_do_not_join_again_stay() -> None:
    core = CoreDriver()
    core.stable("a", "b", a={"instance_id": "i"})
    static = core.group.membership.static_members["i"]
    other = next(each for each in core.group.membership.members if each != static)
    core.join("again", other, protocols=(("range", b"new"),))
    for second in range(REBALANCE_MS // 1000):
        core.heartbeat(("h", second), static, instance_id="i")
        core.pass_time(1000)
    assert core.answers["again"].error_code is ErrorCode.none
    assert static in core.group.membership.members


def test_a_session_that_ends_removes_the_member() -> None:
    core = CoreDriver()
    (member,) = core.stable("a")
    core.pass_time(SESSION_MS - 1)
    assert core.heartbeat("h", member) is ErrorCode.none
    core.pass_time(SESSION_MS - 1)
    assert core.state() is GroupState.STABLE
    core.pass_time(1)
    assert core.state() is GroupState.EMPTY
    assert core.group.membership.generation == 2
    assert core.stored[-1].snapshot.members == ()


def test_a_member_that_waits_in_a_join_lives() -> None:
    core = CoreDriver()
    leader, other = core.stable("a", "b")
    core.join("again", leader)
    for second in range(20):
        core.heartbeat(second, other)
        core.pass_time(1000)
    assert leader in core.group.membership.members
    assert "again" not in core.answers


def test_a_new_member_is_not_waited_for_for_ever() -> None:
    core = CoreDriver(new_member_join_timeout_ms=5000)
    (member,) = core.stable("a", a={"rebalance_timeout_ms": 600_000})
    core.join("b")
    for second in range(5):
        core.heartbeat(second, member)
        core.pass_time(1000)
    assert core.answers["b"].error_code is ErrorCode.unknown_member_id


def test_members_that_do_not_sync_in_time_are_dropped() -> None:
    core = CoreDriver()
    core.stable("a")
    core.join("b")
    core.join("a2", "new-a")
    assert core.state() is GroupState.COMPLETING_REBALANCE
    for second in range(REBALANCE_MS // 1000 + 1):
        for member in ("new-a", "new-b"):
            if member in core.group.membership.members:
                core.heartbeat((member, second), member)
        if second == 1:
            core.sync("s", "new-a", {})
        core.pass_time(1000)
    assert "new-b" not in core.group.membership.members


def test_leaving_makes_a_rebalance_and_the_last_one_empties_the_group() -> None:
    core = CoreDriver()
    leader, other = core.stable("a", "b")
    core.leave("l", MemberIdentity(leader))
    assert core.state() is GroupState.PREPARING_REBALANCE
    assert core.join("again", other).leader == other
    core.leave("m", MemberIdentity(other))
    assert core.state() is GroupState.EMPTY
    assert core.group.membership.protocol is None


def test_two_sessions_that_end_together_empty_the_group() -> None:
    core = CoreDriver()
    core.stable("a", "b")
    core.pass_time(SESSION_MS)
    assert core.state() is GroupState.EMPTY
