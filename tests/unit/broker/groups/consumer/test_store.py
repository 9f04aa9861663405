"""Batches that cannot be stored."""

from __future__ import annotations

import pytest

from crabka.broker.groups.consumer.deadlines import DeadlineKind
from crabka.broker.groups.consumer.messages import ConsumerHeartbeatResult, CreationFailed
from crabka.broker.groups.consumer.store import failed_answer
from crabka.broker.groups.messages import Answer, JoinResult, LeaveResult, SyncResult
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import ConsumerCore

_FAILED = ErrorCode.coordinator_not_available


def test_a_batch_that_fails_is_taken_back() -> None:
    core = ConsumerCore()
    core.beat("a", 0)
    before = core.group.data.copy()
    core.holds_stores = True
    core.post("b", 0)
    core.post("a", -1)
    core.finish_stores(_FAILED)
    assert core.group.data.members == before.members
    assert core.group.data.epoch == before.epoch
    assert [answer.error_code for answer in core.answers.values()] == [ErrorCode.none, _FAILED, _FAILED]
    assert core.group.deadlines.is_set(DeadlineKind.SESSION, "a")


def test_a_group_whose_first_batch_fails_never_was() -> None:
    core = ConsumerCore()
    core.holds_stores = True
    core.post("a", 0)
    core.finish_stores(_FAILED)
    assert core.group.is_dead
    assert core.others == [CreationFailed()]


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (JoinResult(ErrorCode.none, "m", 3), JoinResult(_FAILED, "m")),
        (SyncResult(ErrorCode.none), SyncResult(_FAILED)),
        (LeaveResult(ErrorCode.none), LeaveResult(_FAILED)),
        (ConsumerHeartbeatResult(ErrorCode.none, None, "m", 3), ConsumerHeartbeatResult(_FAILED)),
        (ErrorCode.none, _FAILED),
    ],
)
def test_an_answer_that_was_not_stored_reports_why(result: object, failed: object) -> None:
    assert failed_answer(Answer(1, result), _FAILED) == Answer(1, failed)  # type: ignore[arg-type]
