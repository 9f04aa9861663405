"""Questions to the coordinator, and what its answers mean for a client."""

from __future__ import annotations

import pytest

from crabka.broker.transactions.verification import (
    OFFSET_COMMIT_VERSIONS,
    PRODUCE_VERSIONS,
    TransactionalProducer,
    VerificationMode,
    ask_coordinator,
    produce_error,
)
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import real_time, run_with
from tests.support.coordinators.txn_partitions import FakeCoordinator

PRODUCER = TransactionalProducer("tx", 7, 3)
PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("version", "first_versions", "mode"),
    [
        (10, PRODUCE_VERSIONS, VerificationMode.VERIFY_OLD_ERRORS),
        (11, PRODUCE_VERSIONS, VerificationMode.VERIFY),
        (12, PRODUCE_VERSIONS, VerificationMode.ADD),
        (3, OFFSET_COMMIT_VERSIONS, VerificationMode.VERIFY_OLD_ERRORS),
        (4, OFFSET_COMMIT_VERSIONS, VerificationMode.VERIFY),
        (5, OFFSET_COMMIT_VERSIONS, VerificationMode.ADD),
    ],
)
def test_the_version_of_a_request_reports_what_its_client_expects(
    version: int, first_versions: tuple[int, int], mode: VerificationMode
) -> None:
    assert VerificationMode.of_version(version, first_versions) is mode
    assert mode.supports_epoch_bump == (mode is VerificationMode.ADD)


@pytest.mark.parametrize(
    ("mode", "answer", "reported"),
    [
        (VerificationMode.ADD, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (VerificationMode.ADD, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (VerificationMode.VERIFY, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (VerificationMode.VERIFY_OLD_ERRORS, ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state),
        (VerificationMode.VERIFY, ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions),
    ],
)
@run_with(real_time)
async def test_writers_receive_errors_that_they_know(
    mode: VerificationMode, answer: ErrorCode, reported: ErrorCode
) -> None:
    coordinator = FakeCoordinator()
    coordinator.answers = [answer, ErrorCode.none]
    assert await ask_coordinator(coordinator, PRODUCER, [PLACE], mode) == {PLACE: reported}
    assert await ask_coordinator(coordinator, PRODUCER, [PLACE], mode) == {}
    assert [each.verify_only for each in coordinator.asked] == [mode is not VerificationMode.ADD] * 2


@pytest.mark.parametrize(
    ("mode", "error_code", "reported"),
    [
        (VerificationMode.ADD, ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions),
        (VerificationMode.VERIFY, ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas),
        (VerificationMode.ADD, ErrorCode.not_coordinator, ErrorCode.not_enough_replicas),
        (VerificationMode.VERIFY, ErrorCode.coordinator_load_in_progress, ErrorCode.not_enough_replicas),
        (VerificationMode.VERIFY, ErrorCode.invalid_txn_state, ErrorCode.invalid_txn_state),
        (VerificationMode.ADD, ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_epoch),
    ],
)
def test_a_produce_is_retried_while_the_coordinator_is_away(
    mode: VerificationMode, error_code: ErrorCode, reported: ErrorCode
) -> None:
    assert produce_error(error_code, mode).error_code is reported
