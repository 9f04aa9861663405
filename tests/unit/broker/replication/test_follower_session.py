from __future__ import annotations

from crabka.broker.replication.follower_session import FollowerSession, SessionRequest
from crabka.protocol.error_codes import ErrorCode

T, U = b"t" * 16, b"u" * 16
MAX_EPOCH = 2**31 - 1


def sent(session: FollowerSession) -> SessionRequest:
    request = session.next_request()
    session.sent()
    return request


def begun() -> FollowerSession:
    """Return a session of two partitions that the leader has granted."""
    session = FollowerSession()
    session.want((T, 0), b"a")
    session.want((T, 1), b"b")
    sent(session)
    session.answered(0, 9)
    return session


def test_the_first_request_reports_everything() -> None:
    session = FollowerSession()
    session.want((T, 0), b"a")
    session.want((U, 3), b"b")
    session.want((T, 1), b"c")
    assert session.is_full
    assert sent(session) == (0, 0, {T: [b"a", b"c"], U: [b"b"]}, {})


def test_later_requests_report_what_changed() -> None:
    session = begun()
    assert not session.is_full
    assert sent(session) == (9, 1, {}, {})
    session.answered(0, 9)
    session.want((T, 0), b"a")
    session.want((T, 1), b"new")
    session.want((U, 0), b"other")
    session.drop((T, 7))
    assert sent(session) == (9, 2, {T: [b"new"], U: [b"other"]}, {})
    session.answered(0, 9)
    session.drop((T, 1))
    assert sent(session) == (9, 3, {}, {T: [1]})
    session.answered(0, 9)
    assert sent(session) == (9, 4, {}, {})
    assert len(session) == 2


def test_what_changes_while_a_request_is_on_its_way_is_for_the_next() -> None:
    session = begun()
    session.want((T, 0), b"1")
    sent(session)
    session.want((T, 0), b"2")
    session.drop((T, 1))
    session.answered(0, 9)
    assert sent(session) == (9, 2, {T: [b"2"]}, {T: [1]})


def test_a_partition_that_comes_back_is_not_forgotten() -> None:
    session = begun()
    session.drop((T, 0))
    session.want((T, 0), b"a")
    assert sent(session) == (9, 1, {T: [b"a"]}, {})
    session.drop((T, 0))
    session.drop((T, 0))
    assert session.next_request().forgotten == {T: [0]}


def test_a_leader_without_room_receives_everything_again() -> None:
    session = FollowerSession()
    session.want((T, 0), b"a")
    sent(session)
    session.answered(0, 0)
    assert sent(session) == (0, 0, {T: [b"a"]}, {})


def test_a_session_that_the_leader_does_not_know_begins_anew() -> None:
    session = begun()
    sent(session)
    session.answered(ErrorCode.fetch_session_id_not_found.value, 0)
    assert sent(session) == (0, 0, {T: [b"a", b"b"]}, {})


def test_a_session_with_another_error_is_replaced() -> None:
    session = begun()
    session.drop((T, 1))
    sent(session)
    session.answered(ErrorCode.invalid_fetch_session_epoch.value, 0)
    assert sent(session) == (9, 0, {T: [b"a"]}, {})
    session.answered(0, 10)
    assert sent(session) == (10, 1, {}, {})


def test_on_another_connection_the_session_is_replaced() -> None:
    session = begun()
    session.drop((T, 1))
    session.reset()
    assert sent(session) == (9, 0, {T: [b"a"]}, {})


def test_the_epoch_goes_from_its_largest_value_to_one() -> None:
    session = begun()
    session._epoch = MAX_EPOCH
    assert sent(session).session_epoch == MAX_EPOCH
    session.answered(0, 9)
    assert sent(session).session_epoch == 1
