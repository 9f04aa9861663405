"""Events and actions."""

from __future__ import annotations

from crabka.broker.transactions.messages import ProducerAnswer, TransitionStored, failed
from crabka.broker.transactions.transitions import new_snapshot
from crabka.protocol.error_codes import ErrorCode


def test_an_append_that_failed_is_reported_with_the_same_target() -> None:
    done = TransitionStored(target=new_snapshot(1, 1000, 0), reply="r", answer=ProducerAnswer(ErrorCode.none, 1, 0))
    reported = failed(done, ErrorCode.not_coordinator)
    assert (reported.error_code, reported.reply) == (ErrorCode.not_coordinator, "r")
    assert reported.target is done.target
