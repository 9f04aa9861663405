"""Snapshots and the order of states."""

from __future__ import annotations

import pytest

from crabka.broker.transactions.state import LEGAL_PREDECESSORS, STORED_STATES, TransactionState, is_epoch_exhausted
from crabka.broker.transactions.transitions import new_snapshot
from crabka.errors import InvariantError


def test_states_have_kafkas_numbers() -> None:
    assert [state.value for state in STORED_STATES] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_a_decided_outcome_can_only_be_completed() -> None:
    after_commit = {state for state, before in LEGAL_PREDECESSORS.items() if TransactionState.PREPARE_COMMIT in before}
    after_abort = {state for state, before in LEGAL_PREDECESSORS.items() if TransactionState.PREPARE_ABORT in before}
    assert after_commit == {TransactionState.COMPLETE_COMMIT}
    assert after_abort == {TransactionState.COMPLETE_ABORT}


def test_a_state_that_must_not_follow_is_a_bug() -> None:
    with pytest.raises(InvariantError, match="CompleteCommit must not follow Empty"):
        new_snapshot(1, 1000, 0).follow(TransactionState.COMPLETE_COMMIT)


def test_each_snapshot_remembers_the_producer_before_it() -> None:
    snapshot = new_snapshot(1, 1000, 0).follow(TransactionState.EMPTY, producer_id=2)
    assert (snapshot.producer_id, snapshot.previous_producer_id) == (2, 1)


@pytest.mark.parametrize(("epoch", "exhausted"), [(-1, False), (32765, False), (32766, True), (32767, True)])
def test_the_last_epoch_is_left_for_fencing(epoch: int, exhausted: bool) -> None:
    assert is_epoch_exhausted(epoch) is exhausted
