"""The core of a consumer group: order of batches, retirement, and checks of offsets."""

from __future__ import annotations

import pytest

from crabka.broker.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatResult
from crabka.broker.groups.messages import Answer
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import ConsumerCore, owned, topic_id

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


def test_whoever_waits_is_told_when_the_group_moves() -> None:
    core = ConsumerCore()
    core.holds_stores = True
    core.post("a", 0)
    core.post("b", 0)
    told = core.group.retire(ErrorCode.not_coordinator)
    assert [each.result.error_code for each in told if isinstance(each, Answer)] == [ErrorCode.not_coordinator] * 2  # type: ignore[union-attr]
    assert core.group.is_dead


def test_a_member_of_an_older_epoch_commits_only_what_it_has_had_since() -> None:
    core = ConsumerCore()
    first = core.beat("a", 0).member_epoch
    core.beat("b", 0)
    half = {T: frozenset({0, 1})}
    core.beat("a", first, owned={T: frozenset(range(4))})
    newer = core.beat("a", first, owned=half).member_epoch
    assert newer > first
    old = core.group.commit_check("a", first, 9)
    assert old.error_of("t", 0) is ErrorCode.none
    assert old.error_of("t", 3) is ErrorCode.stale_member_epoch
    assert old.error_of("gone", 0) is ErrorCode.stale_member_epoch
    assert core.group.commit_check("a", newer, 9).error_of("t", 3) is ErrorCode.none


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "expected"),
    [
        ("who", 2, 9, ErrorCode.unknown_member_id),
        ("a", 99, 9, ErrorCode.stale_member_epoch),
        ("a", 2, 8, ErrorCode.unsupported_version),
        ("", -1, 9, ErrorCode.unknown_member_id),
    ],
)
def test_commits_of_others_are_refused(member_id: str, epoch: int, version: int, expected: ErrorCode) -> None:
    core = ConsumerCore()
    core.beat("a", 0)
    with pytest.raises(OperationError) as refused:
        core.group.commit_check(member_id, epoch, version)
    assert refused.value.error_code is expected


def test_without_members_anybody_may_commit() -> None:
    core = ConsumerCore()
    assert core.group.commit_check("", -1, 2).error_of("t", 0) is ErrorCode.none


def test_offsets_are_told_to_members_that_are_up_to_date() -> None:
    core = ConsumerCore()
    epoch = core.beat("a", 0).member_epoch
    core.group.check_fetch(None, -1)
    core.group.check_fetch("a", epoch)
    for member_id, asked, expected in (
        ("a", epoch + 1, ErrorCode.stale_member_epoch),
        ("who", epoch, ErrorCode.unknown_member_id),
    ):
        with pytest.raises(OperationError) as refused:
            core.group.check_fetch(member_id, asked)
        assert refused.value.error_code is expected


def test_a_group_is_the_same_after_a_load() -> None:
    core = ConsumerCore()
    core.beat("a", 0)
    core.beat("b", 0, instance_id="i")
    before = core.group.data
    core.restart()
    assert core.group.data.members == before.members
    assert core.group.deadline_ms == core.now_ms + 10_000
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
    # The member has not heard of a later epoch yet.
    core.group.check_fetch("a", epoch)
    core.holds_stores = False
    core.finish_stores()
    assert core.group.committed is core.group.data
    assert set(core.group.committed.members) == {"a", "b"}
