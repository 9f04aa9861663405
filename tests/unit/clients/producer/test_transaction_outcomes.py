"""Errors of transactions: which pass, which end the transaction, which end the producer."""

from __future__ import annotations

import pytest

from crabka.clients.errors import AbortableTransactionError, FatalTransactionError, ProducerFencedError
from crabka.clients.producer.transaction_outcomes import Outcome, outcome_of, passing_codes, transaction_error
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

OF_COORDINATORS = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)


@pytest.mark.parametrize("api_key", OF_COORDINATORS)
def test_coordinators_that_move_load_or_are_busy_are_asked_again(api_key: ApiKey) -> None:
    assert {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
    } <= passing_codes(api_key)
    assert ErrorCode.producer_fenced not in passing_codes(api_key)


@pytest.mark.parametrize("api_key", OF_COORDINATORS)
@pytest.mark.parametrize("code", [ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch])
def test_old_epochs_at_a_coordinator_mean_a_fenced_producer(api_key: ApiKey, code: ErrorCode) -> None:
    error = transaction_error(api_key, code, "END_TXN")
    assert isinstance(error, ProducerFencedError)
    assert error.error_code is ErrorCode.producer_fenced
    assert "transactional id" in str(error)


@pytest.mark.parametrize(
    ("api_key", "code", "outcome"),
    [
        (ApiKey.PRODUCE, ErrorCode.invalid_producer_epoch, Outcome.ABORTABLE),
        (ApiKey.PRODUCE, ErrorCode.invalid_txn_state, Outcome.ABORTABLE),
        (ApiKey.PRODUCE, ErrorCode.message_too_large, Outcome.ABORTABLE),
        (ApiKey.PRODUCE, ErrorCode.invalid_producer_id_mapping, Outcome.FATAL),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.topic_authorization_failed, Outcome.ABORTABLE),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.invalid_txn_state, Outcome.FATAL),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.unknown_topic_or_partition, Outcome.RETRY),
        (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.group_authorization_failed, Outcome.ABORTABLE),
        (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.unknown_topic_or_partition, Outcome.FATAL),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.illegal_generation, Outcome.ABORTABLE),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.request_timed_out, Outcome.RETRY),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.invalid_txn_state, Outcome.FATAL),
        (ApiKey.END_TXN, ErrorCode.transaction_abortable, Outcome.ABORTABLE),
        (ApiKey.END_TXN, ErrorCode.unknown_producer_id, Outcome.ABORTABLE),
        (ApiKey.INIT_PRODUCER_ID, ErrorCode.unknown_producer_id, Outcome.FATAL),
        (ApiKey.INIT_PRODUCER_ID, ErrorCode.invalid_transaction_timeout, Outcome.FATAL),
    ],
)
def test_the_same_code_means_different_things_in_different_answers(
    api_key: ApiKey, code: ErrorCode, outcome: Outcome
) -> None:
    assert outcome_of(api_key, code) is outcome


def test_errors_keep_their_code() -> None:
    abortable = transaction_error(ApiKey.END_TXN, ErrorCode.transaction_abortable, "told so")
    assert type(abortable) is AbortableTransactionError
    assert (abortable.error_code, str(abortable)) == (ErrorCode.transaction_abortable, "told so")
    fatal = transaction_error(ApiKey.END_TXN, ErrorCode.invalid_txn_state, "told so")
    assert type(fatal) is FatalTransactionError
    assert fatal.error_code is ErrorCode.invalid_txn_state
