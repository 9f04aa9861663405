"""Events of the core."""

from __future__ import annotations

from crabka.broker.groups.messages import AssignmentStored, failed
from crabka.protocol.error_codes import ErrorCode


def test_a_failed_store_is_the_same_event_with_its_error() -> None:
    done = AssignmentStored(generation=3, assignments={"m": b"x"})
    reported = failed(done, ErrorCode.not_coordinator)
    assert reported == AssignmentStored(generation=3, assignments={"m": b"x"}, error_code=ErrorCode.not_coordinator)
    assert done.error_code is ErrorCode.none
