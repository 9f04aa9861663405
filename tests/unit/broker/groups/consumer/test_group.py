"""The core of a consumer group: order of batches, retirement, requests that wait."""

from __future__ import annotations

from crabka.broker.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatResult
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import ConsumerCore, owned, topic_id

T = topic_id(0)


def test_events_wait_while_records_are_on_their_way() -> None:
    core = ConsumerCore()
    core.holds_stores = True
    assert core.post("a", 0) is None
    assert core.post("b", 0) is None
    assert len(core.waiting) == 1
    core.finish_stores()
    core.holds_stores = False
    core.finish_stores()
    assert set(core.group.data.members) == {"a", "b"}
    assert len(core.answers) == 2


def test_waiters_are_answered_when_the_group_moves() -> None:
    core = ConsumerCore()
    core.holds_stores = True
    core.post("a", 0)
    core.post("b", 0)
    reported = core.group.retire(ErrorCode.not_coordinator)
    assert [each.result.error_code for each in reported] == [ErrorCode.not_coordinator] * 2  # type: ignore[union-attr]
    assert core.group.is_dead


def test_a_group_is_the_same_after_a_load() -> None:
    core = ConsumerCore()
    core.beat("a", 0)
    core.beat("b", 0, instance_id="i")
    before = core.group.data
    core.restart()
    assert core.group.data.members == before.members
    assert core.group.deadlines.first_ms == core.now_ms + 10_000
    core.pass_time(10_000)
    assert core.group.is_empty


def test_a_refused_report_changes_nothing() -> None:
    core = ConsumerCore()
    refused = core.beat("a", 0, topic_regex="(")
    assert isinstance(refused, ConsumerHeartbeatResult)
    assert refused.error_code is ErrorCode.invalid_regular_expression
    assert not core.log
    assert core.group.is_empty
    assert owned(core.beat("a", 0)) == {T: frozenset(range(4))}


def test_a_member_whose_report_has_to_wait_lives_on() -> None:
    core = ConsumerCore()
    epoch = core.beat("a", 0).member_epoch
    core.holds_stores = True
    assert core.post("b", 0) is None
    core.now_ms += 9_000
    assert core.post("a", epoch) is None
    core.now_ms += 9_000
    core.holds_stores = False
    core.finish_stores()
    core.pass_time(0)
    assert "a" in core.group.data.members


def test_a_request_can_be_taken_back_while_it_waits() -> None:
    core = ConsumerCore()
    epoch = core.beat("a", 0).member_epoch
    core.holds_stores = True
    core.post("b", 0)
    event = ConsumerHeartbeat(reply="late", member_id="a", member_epoch=epoch)
    core.step(event)
    core.group.withdraw(event)
    # A second time there is nothing to take back.
    core.group.withdraw(event)
    core.holds_stores = False
    core.finish_stores()
    assert "late" not in core.answers


def test_what_is_on_its_way_is_not_committed() -> None:
    core = ConsumerCore()
    epoch = core.beat("a", 0).member_epoch
    core.holds_stores = True
    core.post("b", 0)
    assert set(core.group.committed.members) == {"a"}
    # The member does not know a later epoch yet.
    core.group.offset_checks.fetch("a", epoch)
    core.holds_stores = False
    core.finish_stores()
    assert core.group.committed is core.group.data
    assert set(core.group.committed.members) == {"a", "b"}
