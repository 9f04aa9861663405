"""Sessions of brokers with the active controller."""

from __future__ import annotations

from crabka.controller.decisions.heartbeats import BrokerHeartbeat, BrokerHeartbeatReply
from crabka.controller.decisions.sessions import BrokerIncarnation, BrokerSessions
from crabka.metadata.records import BrokerRegistrationChangeRecord
from tests.support.quorum.images import applied, cluster

FIRST, SECOND = BrokerIncarnation(1, 10), BrokerIncarnation(2, 20)
SERVING = BrokerHeartbeatReply(is_caught_up=True, is_fenced=False, in_controlled_shutdown=False, should_shut_down=False)
STOPPING = BrokerHeartbeatReply(is_caught_up=True, is_fenced=False, in_controlled_shutdown=True, should_shut_down=False)
STOPPED = BrokerHeartbeatReply(is_caught_up=True, is_fenced=True, in_controlled_shutdown=False, should_shut_down=True)


def heartbeat(broker: BrokerIncarnation, offset: int = 100) -> BrokerHeartbeat:
    return BrokerHeartbeat(broker_id=broker.broker_id, broker_epoch=broker.epoch, metadata_offset=offset)


def sessions_of(*brokers: BrokerIncarnation, now_ms: int = 0) -> BrokerSessions:
    sessions = BrokerSessions(session_timeout_ms=9000)
    for broker in brokers:
        sessions.touch(broker, now_ms)
    return sessions


def test_a_session_lives_for_the_session_time_after_each_heartbeat() -> None:
    sessions = sessions_of(FIRST)
    assert sessions.is_live(FIRST, 9000)
    assert not sessions.is_live(FIRST, 9001)
    sessions.touch(FIRST, 5000)
    assert sessions.is_live(FIRST, 14000)
    assert not sessions.is_live(SECOND, 0)


def test_those_longest_silent_expire_first() -> None:
    sessions = sessions_of(SECOND)
    sessions.touch(FIRST, 100)
    assert sessions.next_expiry_ms() == 9001
    assert sessions.expired(9000) == []
    assert sessions.expired(9001) == [SECOND]
    assert sessions.expired(9101) == [SECOND, FIRST]
    sessions.end(SECOND)
    assert sessions.expired(9101) == [FIRST]
    sessions.end(FIRST)
    assert sessions.next_expiry_ms() is None


def test_a_heartbeat_of_an_incarnation_that_was_replaced_keeps_no_session() -> None:
    sessions = sessions_of(BrokerIncarnation(1, 50))
    sessions.touch(FIRST, 8000)
    assert not sessions.is_live(FIRST, 8000)
    assert not sessions.is_live(BrokerIncarnation(1, 50), 9001)
    sessions.end(FIRST)
    assert sessions.is_live(BrokerIncarnation(1, 50), 9000)


def test_a_new_incarnation_begins_anew() -> None:
    sessions = sessions_of(FIRST)
    sessions.note(heartbeat(FIRST), STOPPING, end_offset=7)
    sessions.touch(BrokerIncarnation(1, 50), 1)
    assert sessions.shutdown_offset(1) is None


def test_a_new_controller_gives_everybody_who_serves_a_whole_session() -> None:
    image = cluster(1, 2, fenced=[2])
    sessions = sessions_of(BrokerIncarnation(3, 3))
    sessions.activate(image, 50_000)
    assert sessions.is_live(BrokerIncarnation(1, 1), 59_000)
    assert not sessions.is_live(BrokerIncarnation(2, 2), 50_000)
    assert not sessions.is_live(BrokerIncarnation(3, 3), 50_000)


def test_the_offset_of_a_shutdown_is_that_of_its_first_answer() -> None:
    sessions = sessions_of(FIRST)
    assert sessions.shutdown_offset(1) is None
    sessions.note(heartbeat(FIRST), SERVING, end_offset=3)
    assert sessions.shutdown_offset(1) is None
    sessions.note(heartbeat(FIRST), STOPPING, end_offset=7)
    sessions.note(heartbeat(FIRST), STOPPING, end_offset=9)
    assert sessions.shutdown_offset(1) == 7


def test_a_broker_that_may_stop_has_no_session_any_more() -> None:
    sessions = sessions_of(FIRST)
    sessions.note(heartbeat(FIRST), STOPPED, end_offset=7)
    assert not sessions.is_live(FIRST, 0)
    sessions.note(heartbeat(FIRST), SERVING, end_offset=7)
    assert not sessions.is_live(FIRST, 0)


def test_how_far_everybody_has_read() -> None:
    image = cluster(1, 2, 3, 4, fenced=[3])
    sessions = BrokerSessions(9000)
    for broker_id, offset in ((1, 50), (2, 40), (3, 10)):
        broker = BrokerIncarnation(broker_id, broker_id)
        sessions.touch(broker, 0)
        sessions.note(heartbeat(broker, offset), SERVING, end_offset=0)
    # Broker 4 has sent no heartbeat.
    assert sessions.lowest_active_offset(image) == -1
    shutting = BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=4, in_controlled_shutdown=1)
    assert sessions.lowest_active_offset(applied(image, [shutting])) == 40
    assert sessions.lowest_active_offset(cluster()) is None
