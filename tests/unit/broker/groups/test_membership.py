"""Bookkeeping of members, and the table of states."""

from __future__ import annotations

import itertools

import pytest

from crabka.broker.groups.member import ClassicMember
from crabka.broker.groups.membership import (
    LEGAL_TRANSITIONS,
    ClassicSettings,
    GroupState,
    InvalidTransitionError,
    Membership,
)
from tests.support.coordinators.members import SESSION_MS, CoreDriver, subscription


def group() -> Membership:
    return Membership("g", ClassicSettings(), 0)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(GroupState, GroupState)))
def test_only_the_table_allows_transitions(old: GroupState, new: GroupState) -> None:
    each = group()
    each.state = old
    if new in LEGAL_TRANSITIONS[old]:
        each.enter(new, 5)
        assert (each.state, each.previous_state, each.state_timestamp_ms) == (new, old, 5)
    else:
        with pytest.raises(InvalidTransitionError, match=f"from {old.value} to {new.value}"):
            each.enter(new, 5)
        assert each.state is old


def test_the_next_oldest_leads_after_the_leader() -> None:
    each = group()
    members = [ClassicMember(name, None, client_id="", client_host="", protocols=()) for name in "abc"]
    for member in members:
        each.add(member, "consumer")
    assert each.leader_id == "a"
    each.remove(members[0])
    assert each.leader_id == "b"


def test_subscriptions_are_known_with_the_generation() -> None:
    core = CoreDriver()
    core.stable("a", a={"protocols": (("range", subscription("t", "u")),)})
    assert core.group.is_subscribed_to("u")
    assert not core.group.is_subscribed_to("x")


def test_a_subscription_that_cannot_be_read_may_mean_any_topic() -> None:
    core = CoreDriver()
    core.stable("a", a={"protocols": (("range", b"?"),)})
    assert core.group.is_subscribed_to("x")


def test_a_stored_group_comes_back_stable() -> None:
    core = CoreDriver()
    core.stable("a", "b", b={"instance_id": "i"})
    again = group()
    again.restore(core.stored[-1].snapshot, 100)
    assert again.state is GroupState.STABLE
    assert again.snapshot(again.assignments()) == core.stored[-1].snapshot
    assert again.static_members == core.group.membership.static_members
    assert again.deadline_ms == again.first_member_deadline_ms() == 10_100


def test_members_that_were_loaded_have_a_whole_session_from_then_on() -> None:
    core = CoreDriver()
    core.stable("a")
    loaded = group()
    loaded.restore(core.group.membership.snapshot(core.group.membership.assignments()), 100)
    loaded.start_sessions(50_000)
    (member,) = loaded.members.values()
    assert member.deadline_ms == 50_000 + SESSION_MS
    assert loaded.first_member_deadline_ms() == 50_000 + SESSION_MS
