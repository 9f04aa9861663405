"""Refusals in the words of the work with groups."""

from __future__ import annotations

import pytest

from crabka.cli.groups.errors import explained
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.group_id_not_found, "group g does not exist; `crabka groups list`"),
        (ErrorCode.non_empty_group, "group g still has members; stop its consumers"),
        (ErrorCode.unknown_member_id, "group g has new members; stop its consumers"),
        (ErrorCode.group_subscribed_to_topic, "told: group g still reads that topic; stop its consumers"),
        (ErrorCode.coordinator_not_available, "told; the topic __consumer_offsets cannot be created"),
        (ErrorCode.unknown_topic_or_partition, "told; `crabka topics list`"),
        (ErrorCode.invalid_group_id, "'g' is not the name of a group"),
    ],
)
def test_refusal_says_what_to_do(code: ErrorCode, text: str) -> None:
    with pytest.raises(OperationError, match=text) as caught, explained("g"):
        raise OperationError(code, "told")
    assert caught.value.error_code is code


def test_other_refusals_stay_as_they_are() -> None:
    refusal = OperationError(ErrorCode.invalid_request, "told")
    with pytest.raises(OperationError) as caught, explained("g"):
        raise refusal
    assert caught.value is refusal
