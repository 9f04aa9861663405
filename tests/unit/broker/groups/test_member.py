"""A member of a classic group."""

from __future__ import annotations

from crabka.broker.groups.member import ClassicMember
from crabka.broker.groups.messages import MemberSnapshot


def member() -> ClassicMember:
    return ClassicMember("m", None, client_id="c", client_host="/h", protocols=(("a", b"1"), ("b", b"2")))


def test_a_member_votes_for_its_first_candidate() -> None:
    assert member().vote({"b", "x"}) == "b"
    assert member().vote({"a", "b"}) == "a"


def test_metadata_is_that_of_the_protocol() -> None:
    assert (member().metadata("b"), member().metadata("x"), member().metadata(None)) == (b"2", b"", b"")


def test_new_members_do_not_live_by_waiting() -> None:
    waiting = member()
    assert not waiting.satisfies_heartbeat
    waiting.awaiting_join = object()
    assert waiting.satisfies_heartbeat
    waiting.is_new = True
    assert not waiting.satisfies_heartbeat


def test_a_stored_member_comes_back() -> None:
    stored = MemberSnapshot("m", "i", "c", "/h", 7, 5, b"s", b"a")
    again = ClassicMember.of_snapshot(stored, "range")
    assert again.snapshot("range", again.assignment) == stored


def test_a_member_stored_by_old_releases_waits_as_long_as_its_session() -> None:
    assert (
        ClassicMember.of_snapshot(MemberSnapshot("m", None, "c", "/h", -1, 5, b"", b""), "").rebalance_timeout_ms == 5
    )
