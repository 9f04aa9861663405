"""Deadlines of members."""

from __future__ import annotations

from crabka.broker.groups.consumer.context import GroupContext
from crabka.broker.groups.consumer.deadlines import DeadlineKind, MemberDeadlines
from crabka.broker.groups.consumer.member import ClassicMetadata, ConsumerMember, MemberMetadata
from crabka.broker.groups.member import NEVER
from tests.support.coordinators.consumer_groups import SETTINGS, catalog_of


def deadlines() -> MemberDeadlines:
    return MemberDeadlines(GroupContext("g", catalog_of(), lambda _group_id: SETTINGS))


def test_cancelled_deadlines_do_nothing() -> None:
    made = deadlines()
    made.set(DeadlineKind.JOIN, "m", 5)
    made.set(DeadlineKind.SYNC, "m", 7)
    assert made.first_ms == 5
    made.cancel(DeadlineKind.JOIN, "m")
    made.cancel_all("m")
    assert made.take_due(100) == []
    made.update_first()
    assert made.first_ms == NEVER


def test_only_deadlines_that_have_passed_are_taken() -> None:
    made = deadlines()
    made.set(DeadlineKind.JOIN, "m", 5)
    made.set(DeadlineKind.SYNC, "n", 7)
    assert made.take_due(5) == [(DeadlineKind.JOIN, "m")]
    assert made.is_set(DeadlineKind.SYNC, "n")


def test_members_without_a_session_get_one_with_their_own_timeout() -> None:
    made = deadlines()
    classic = MemberMetadata(classic=ClassicMetadata(6_000, ()))
    made.set(DeadlineKind.SESSION, "kept", 1)
    made.start_missing_sessions([ConsumerMember("kept"), ConsumerMember("new"), ConsumerMember("old", classic)], 100)
    assert made.take_due(1) == [(DeadlineKind.SESSION, "kept")]
    assert made.take_due(6_100) == [(DeadlineKind.SESSION, "old")]
    assert made.take_due(10_100) == [(DeadlineKind.SESSION, "new")]
