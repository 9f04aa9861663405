"""The core of one transactional id."""

from __future__ import annotations

import pytest

from crabka.broker.transactions.messages import (
    CheckExpiry,
    CheckTimeout,
    Forget,
    MarkersWritten,
    ProducerAndEpoch,
    ProducerAnswer,
    Resume,
    RetryCompletion,
    SendMarkers,
)
from crabka.broker.transactions.transaction import Transaction
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.transactions import NOW_MS, T0, T1, TIMEOUT_MS, SteppedTransaction


def begun() -> SteppedTransaction:
    stepped = SteppedTransaction()
    stepped.init()
    assert stepped.add(T0) is ErrorCode.none
    return stepped


def states(stepped: SteppedTransaction) -> list[str]:
    return [each.state.value for each in stepped.stored]


@pytest.mark.parametrize("client", [0, 2])
@pytest.mark.parametrize(("commit", "outcome"), [(True, "Commit"), (False, "Abort")])
def test_a_transaction_from_begin_to_end(client: int, commit: bool, outcome: str) -> None:
    stepped = begun()
    assert stepped.add(T1, client=client) is ErrorCode.none
    assert stepped.end(commit=commit, client=client).error_code is ErrorCode.none
    (sent,) = stepped.took(SendMarkers)
    assert sent.snapshot.partitions == (T0, T1)
    stepped.step(MarkersWritten(stepped.producer))
    assert states(stepped) == ["Empty", "Ongoing", "Ongoing", f"Prepare{outcome}", f"Complete{outcome}"]
    assert stepped.core.current.partitions == ()


def test_partitions_that_are_known_need_no_record() -> None:
    stepped = begun()
    assert stepped.add(T0) is ErrorCode.none
    assert states(stepped) == ["Empty", "Ongoing"]


def test_until_all_partitions_know_the_end_everybody_has_to_wait() -> None:
    stepped = begun()
    before = stepped.producer
    stepped.end()
    assert stepped.add(T1) is ErrorCode.concurrent_transactions
    assert stepped.end(producer=before).error_code is ErrorCode.concurrent_transactions
    assert stepped.init().error_code is ErrorCode.concurrent_transactions
    with pytest.raises(OperationError) as refused:
        stepped.core.verify(stepped.producer, [T0])
    assert refused.value.error_code is ErrorCode.concurrent_transactions


def test_an_end_that_is_repeated_gets_the_same_answer_and_no_other_outcome() -> None:
    stepped = begun()
    before = stepped.producer
    answer = stepped.end()
    stepped.step(MarkersWritten(stepped.producer))
    assert stepped.end(producer=before) == answer
    assert stepped.end(producer=before, commit=False).error_code is ErrorCode.invalid_txn_state
    # With the new epoch it is the next transaction that is ended: there is none to commit.
    assert stepped.end().error_code is ErrorCode.invalid_txn_state


def test_version_2_can_abort_what_has_not_begun() -> None:
    stepped = SteppedTransaction()
    stepped.init()
    assert stepped.end(commit=False) == ProducerAnswer(ErrorCode.none, 7, 1)
    assert states(stepped) == ["Empty", "PrepareAbort", "CompleteAbort"]
    assert stepped.core.current.start_timestamp_ms == NOW_MS
    assert stepped.end(commit=False) == ProducerAnswer(ErrorCode.none, 7, 2)
    assert stepped.end(commit=False, client=0).error_code is ErrorCode.none
    assert stepped.end(commit=True, client=0).error_code is ErrorCode.invalid_txn_state


def test_what_has_not_begun_cannot_be_committed() -> None:
    stepped = SteppedTransaction()
    stepped.init()
    for client in (0, 2):
        assert stepped.end(client=client).error_code is ErrorCode.invalid_txn_state
    assert stepped.end(commit=False, client=0).error_code is ErrorCode.invalid_txn_state


@pytest.mark.parametrize("client", [0, 2])
@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (ProducerAndEpoch(8, 0), ErrorCode.invalid_producer_id_mapping),
        (ProducerAndEpoch(7, 1), ErrorCode.producer_fenced),
        (ProducerAndEpoch(7, -1), ErrorCode.producer_fenced),
    ],
)
def test_other_producers_are_refused(client: int, producer: ProducerAndEpoch, code: ErrorCode) -> None:
    stepped = begun()
    assert stepped.add(T1, producer=producer, client=client) is code
    assert stepped.end(producer=producer, client=client).error_code is code
    with pytest.raises(OperationError) as refused:
        stepped.core.verify(producer, [T0])
    assert refused.value.error_code is code


def test_verification_reports_which_partitions_are_in_the_transaction() -> None:
    stepped = begun()
    assert stepped.core.verify(stepped.producer, [T0, T1]) == {T0: True, T1: False}


def test_a_new_producer_aborts_the_transaction_of_the_old_one_first() -> None:
    stepped = begun()
    zombie = stepped.producer
    assert stepped.init().error_code is ErrorCode.concurrent_transactions
    (sent,) = stepped.took(SendMarkers)
    assert (sent.snapshot.state.value, sent.snapshot.producer_epoch) == ("PrepareAbort", 1)
    stepped.step(MarkersWritten(stepped.producer))
    assert stepped.init() == ProducerAnswer(ErrorCode.none, 7, 2)
    assert stepped.add(T0, producer=zombie) is ErrorCode.producer_fenced
    assert stepped.end(producer=zombie).error_code is ErrorCode.producer_fenced


def test_a_transaction_over_its_timeout_is_aborted() -> None:
    stepped = begun()
    zombie = stepped.producer
    stepped.now_ms += TIMEOUT_MS
    stepped.step(CheckTimeout(server_version=2))
    assert stepped.core.current.state.value == "Ongoing"
    stepped.now_ms += 1
    stepped.step(CheckTimeout(server_version=2))
    assert stepped.core.current.state.value == "PrepareAbort"
    stepped.step(MarkersWritten(stepped.producer))
    assert stepped.end(producer=zombie).error_code is ErrorCode.invalid_txn_state
    assert stepped.add(T0, producer=zombie) is ErrorCode.producer_fenced


def test_what_could_not_be_stored_did_not_happen() -> None:
    stepped = begun()
    before = stepped.core.current
    stepped.fail_with = ErrorCode.coordinator_not_available
    assert stepped.add(T1) is ErrorCode.coordinator_not_available
    assert stepped.end().error_code is ErrorCode.coordinator_not_available
    assert stepped.init().error_code is ErrorCode.coordinator_not_available
    assert stepped.core.current is before
    stepped.fail_with = ErrorCode.none
    assert stepped.end().error_code is ErrorCode.none


def test_the_last_record_of_an_end_is_tried_again() -> None:
    stepped = begun()
    stepped.end()
    stepped.fail_with = ErrorCode.coordinator_not_available
    stepped.step(MarkersWritten(stepped.producer))
    (retry,) = stepped.took(RetryCompletion)
    stepped.fail_with = ErrorCode.none
    stepped.step(retry.event)
    assert stepped.core.current.state.value == "CompleteCommit"


def test_what_a_restart_finds_half_done_is_finished() -> None:
    stepped = begun()
    stepped.end()
    loaded = SteppedTransaction(stepped.stored[-1])
    loaded.step(Resume())
    (sent,) = loaded.took(SendMarkers)
    assert sent.snapshot == stepped.stored[-1]
    loaded.step(MarkersWritten(loaded.producer))
    loaded.step(MarkersWritten(loaded.producer))
    assert states(loaded) == ["CompleteCommit"]
    ended = SteppedTransaction(loaded.stored[-1])
    ended.step(Resume())
    assert (ended.stored, ended.others) == ([], [])


def test_an_abort_without_partitions_is_finished_at_once_after_a_restart() -> None:
    stepped = SteppedTransaction()
    stepped.init()
    stepped.end(commit=False)
    loaded = SteppedTransaction(stepped.stored[1])
    loaded.step(Resume())
    assert states(loaded) == ["CompleteAbort"]


def test_an_unused_id_expires() -> None:
    stepped = SteppedTransaction()
    stepped.init()
    stepped.now_ms += 999
    stepped.step(CheckExpiry(expiration_ms=1000))
    assert stepped.took(Forget) == []
    stepped.now_ms += 1
    stepped.fail_with = ErrorCode.not_coordinator
    stepped.step(CheckExpiry(expiration_ms=1000))
    assert stepped.took(Forget) == []
    stepped.fail_with = ErrorCode.none
    stepped.step(CheckExpiry(expiration_ms=1000))
    assert len(stepped.took(Forget)) == 1
    assert states(stepped)[-1] == "Dead"


def test_an_open_transaction_does_not_expire() -> None:
    stepped = begun()
    stepped.now_ms += 10**9
    stepped.step(CheckExpiry(expiration_ms=1000))
    assert isinstance(stepped.core, Transaction)
    assert stepped.core.current.state.value == "Ongoing"
