"""Verdicts carry Kafka's code and words."""

from __future__ import annotations

from crabka.errors import OperationError
from crabka.metadata.requests import ACCEPTED, ItemVerdict, Outcome
from crabka.protocol.error_codes import ErrorCode, error_message


def test_an_error_without_words_gets_kafkas() -> None:
    verdict = ItemVerdict.of(OperationError(ErrorCode.unknown_topic_id))
    assert verdict == ItemVerdict(ErrorCode.unknown_topic_id, error_message(ErrorCode.unknown_topic_id))
    assert verdict.message


def test_own_words_are_kept() -> None:
    assert ItemVerdict.of(OperationError(ErrorCode.invalid_request, "why")).message == "why"


def test_success_says_nothing() -> None:
    assert (ACCEPTED.error_code, ACCEPTED.message) == (ErrorCode.none, None)


def test_outcomes_do_not_share_their_records() -> None:
    assert Outcome(1).records is not Outcome(1).records
