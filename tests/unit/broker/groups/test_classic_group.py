"""The core of a classic group, event by event."""

from __future__ import annotations

import pytest

from crabka.broker.groups.membership import GroupState
from crabka.broker.groups.messages import CommitAttempt, MemberIdentity
from crabka.protocol.error_codes import ErrorCode
from tests.support.groups import CoreDriver


def commit(core: CoreDriver, reply: str, member_id: str = "", generation: int = -1) -> ErrorCode:
    core.step(CommitAttempt(reply=reply, member_id=member_id, generation=generation))
    answer = core.answers[reply]
    assert isinstance(answer, ErrorCode)
    return answer


def test_a_first_member_leads_the_first_generation() -> None:
    core = CoreDriver()
    answer = core.join("a", is_new_group=True)
    assert (answer.error_code, answer.generation, answer.leader) == (ErrorCode.none, 1, "new-a")
    assert [member.member_id for member in answer.members] == ["new-a"]
    assert core.stored[0].snapshot[:4] == ("", 0, None, None)
    assert core.sync("s", "new-a", {"new-a": b"x"}).assignment == b"x"
    assert core.state() is GroupState.STABLE


def test_a_member_without_an_id_gets_one_and_has_to_come_back() -> None:
    core = CoreDriver()
    answer = core.join("a", requires_known_member_id=True)
    assert (answer.error_code, answer.member_id) == (ErrorCode.member_id_required, "new-a")
    assert core.state() is GroupState.EMPTY
    assert core.join("b", "new-a", requires_known_member_id=True).error_code is ErrorCode.none


def test_an_id_that_nobody_comes_back_with_is_forgotten() -> None:
    core = CoreDriver()
    core.join("a", requires_known_member_id=True)
    core.pass_time(10_000)
    assert core.join("b", "new-a").error_code is ErrorCode.unknown_member_id


def test_members_learn_their_own_part_only() -> None:
    core = CoreDriver()
    leader, other = core.stable("a", "b")
    assert core.answers["sync", leader].assignment == leader.encode()
    assert core.answers["sync", other].assignment == other.encode()


def test_a_protocol_that_does_not_fit_is_refused() -> None:
    core = CoreDriver()
    assert core.join("none", protocols=()).error_code is ErrorCode.inconsistent_group_protocol
    core.stable("a")
    assert core.join("x", protocols=(("other", b""),)).error_code is ErrorCode.inconsistent_group_protocol
    assert core.join("y", protocol_type="connect").error_code is ErrorCode.inconsistent_group_protocol


def test_the_protocol_that_most_members_prefer_wins() -> None:
    core = CoreDriver(initial_rebalance_delay_ms=100)
    core.join("a", protocols=(("range", b""), ("sticky", b"")))
    core.join("b", protocols=(("sticky", b""), ("range", b"")))
    core.join("c", protocols=(("sticky", b""), ("range", b""), ("only-c", b"")))
    core.pass_time(300)
    assert core.answers["a"].protocol == "sticky"


@pytest.mark.parametrize("generation", [0, 2])
def test_another_generation_is_illegal(generation: int) -> None:
    core = CoreDriver()
    (member,) = core.stable("a")
    assert core.heartbeat("h", member, generation) is ErrorCode.illegal_generation
    assert core.sync("s", member, generation=generation).error_code is ErrorCode.illegal_generation
    assert commit(core, "c", member, generation) is ErrorCode.illegal_generation


def test_strangers_are_unknown() -> None:
    core = CoreDriver()
    core.stable("a")
    assert core.heartbeat("h", "who") is ErrorCode.unknown_member_id
    assert core.sync("s", "who").error_code is ErrorCode.unknown_member_id
    assert commit(core, "c", "who", 1) is ErrorCode.unknown_member_id
    assert commit(core, "d") is ErrorCode.unknown_member_id
    assert core.leave("l", MemberIdentity("who")).members[0][1] is ErrorCode.unknown_member_id


def test_a_heartbeat_tells_of_a_rebalance() -> None:
    core = CoreDriver()
    (member,) = core.stable("a")
    assert core.heartbeat("h", member) is ErrorCode.none
    assert core.join("b") is None
    assert core.heartbeat("i", member) is ErrorCode.rebalance_in_progress
    assert core.sync("s", member).error_code is ErrorCode.rebalance_in_progress
    assert commit(core, "c", member, 1) is ErrorCode.none


def test_a_commit_waits_for_the_assignment() -> None:
    core = CoreDriver()
    core.join("a")
    assert commit(core, "c", "new-a", 1) is ErrorCode.rebalance_in_progress


def test_an_empty_group_takes_commits_of_anybody() -> None:
    assert commit(CoreDriver(), "c") is ErrorCode.none


def test_a_follower_that_asks_again_gets_the_same_answer_without_a_rebalance() -> None:
    core = CoreDriver()
    leader, other = core.stable("a", "b")
    assert core.join("again", other).generation == core.group.membership.generation
    assert core.state() is GroupState.STABLE
    assert core.join("topics changed", leader) is None
    assert core.state() is GroupState.PREPARING_REBALANCE


def test_changed_metadata_makes_a_rebalance() -> None:
    core = CoreDriver()
    _, other = core.stable("a", "b")
    assert core.join("again", other, protocols=(("range", b"more"),)) is None
    assert core.state() is GroupState.PREPARING_REBALANCE


def test_a_request_that_is_sent_again_frees_the_first() -> None:
    core = CoreDriver()
    _, other = core.stable("a", "b")
    core.join("c")
    core.join("first", other)
    core.join("second", other)
    assert core.answers["first"].error_code is ErrorCode.rebalance_in_progress
    assert "second" not in core.answers


def test_the_assignment_counts_only_when_it_is_stored() -> None:
    core = CoreDriver()
    core.join("a")
    core.holds_stores = True
    assert core.sync("s", "new-a", {"new-a": b"x"}) is None
    assert core.state() is GroupState.COMPLETING_REBALANCE
    core.finish_stores()
    assert core.answers["s"].assignment == b"x"


def test_an_assignment_that_cannot_be_stored_is_told_and_tried_again() -> None:
    core = CoreDriver()
    core.join("a")
    core.holds_stores = True
    core.sync("s", "new-a", {"new-a": b"x"})
    core.finish_stores(ErrorCode.coordinator_not_available)
    assert core.answers["s"].error_code is ErrorCode.coordinator_not_available
    assert core.state() is GroupState.PREPARING_REBALANCE


def test_an_assignment_of_an_older_generation_is_dropped() -> None:
    core = CoreDriver()
    core.join("a")
    core.holds_stores = True
    core.sync("s", "new-a", {"new-a": b"old"})
    core.join("b")
    assert core.answers["s"].error_code is ErrorCode.rebalance_in_progress
    core.join("a2", "new-a")
    core.finish_stores()
    assert core.state() is GroupState.COMPLETING_REBALANCE
    assert core.group.membership.members["new-a"].assignment == b""


def test_a_group_that_cannot_be_stored_is_dead() -> None:
    core = CoreDriver(initial_rebalance_delay_ms=100)
    core.holds_stores = True
    core.join("a", is_new_group=True)
    core.finish_stores(ErrorCode.not_coordinator)
    assert core.answers["a"].error_code is ErrorCode.not_coordinator
    assert core.state() is GroupState.DEAD
    assert core.join("b").error_code is ErrorCode.coordinator_not_available
    assert core.heartbeat("h", "new-a") is ErrorCode.coordinator_not_available
    assert core.sync("s", "new-a").error_code is ErrorCode.coordinator_not_available
    assert core.leave("l", MemberIdentity("new-a")).error_code is ErrorCode.coordinator_not_available
    assert commit(core, "c") is ErrorCode.coordinator_not_available


def test_a_full_group_takes_no_more() -> None:
    core = CoreDriver(max_size=1)
    core.stable("a")
    assert core.join("b").error_code is ErrorCode.group_max_size_reached


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    core = CoreDriver()
    core.stable("a", "b", a={"instance_id": "i-a"}, b={"instance_id": "i-b"})
    result = core.leave("l", MemberIdentity("", "i-b"), MemberIdentity("", "who"), MemberIdentity("wrong", "i-a"))
    assert [error_code for _, error_code in result.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
    ]
    assert set(core.group.membership.static_members) == {"i-a"}


def test_retiring_answers_everybody_who_waits() -> None:
    core = CoreDriver()
    core.stable("a")
    core.join("b")
    answers = core.group.retire(ErrorCode.not_coordinator, 0)
    assert [action.result.error_code for action in answers] == [ErrorCode.not_coordinator]  # type: ignore[union-attr]
