"""Epochs and ids, from one snapshot to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.broker.transactions.messages import (
    InitProducer,
    MarkersWritten,
    NeedProducerId,
    ProducerAndEpoch,
    ProducerAnswer,
)
from crabka.broker.transactions.state import TransactionState
from crabka.broker.transactions.transitions import fenced, new_snapshot
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.transactions import NOW_MS, T0, TIMEOUT_MS, SteppedTransaction

LAST = 32766


def at_epoch(epoch: int) -> SteppedTransaction:
    return SteppedTransaction(replace(new_snapshot(7, TIMEOUT_MS, NOW_MS), producer_epoch=epoch))


def test_the_first_producer_gets_epoch_zero_and_each_further_one_the_next() -> None:
    stepped = SteppedTransaction()
    assert stepped.init() == ProducerAnswer(ErrorCode.none, 7, 0)
    assert stepped.init() == ProducerAnswer(ErrorCode.none, 7, 1)


def test_a_producer_that_goes_on_gets_the_next_epoch_and_the_same_one_when_it_asks_again() -> None:
    stepped = at_epoch(3)
    for _ in range(2):
        assert stepped.init(ProducerAndEpoch(7, 3)) == ProducerAnswer(ErrorCode.none, 7, 4)


@pytest.mark.parametrize("expected", [ProducerAndEpoch(7, 2), ProducerAndEpoch(8, 3), ProducerAndEpoch(7, 4)])
def test_a_producer_that_was_overtaken_cannot_go_on(expected: ProducerAndEpoch) -> None:
    assert at_epoch(3).init(expected).error_code is ErrorCode.producer_fenced


def test_after_a_new_producer_the_old_one_cannot_repeat_its_request() -> None:
    stepped = at_epoch(3)
    stepped.init(ProducerAndEpoch(7, 3))
    stepped.init()
    assert stepped.init(ProducerAndEpoch(7, 3)).error_code is ErrorCode.producer_fenced


def test_a_used_up_id_is_replaced_and_its_producer_may_ask_again() -> None:
    stepped = at_epoch(LAST)
    assert stepped.init(ProducerAndEpoch(7, LAST)) is None
    (asked,) = stepped.took(NeedProducerId)
    assert isinstance(asked.event, InitProducer)
    assert stepped.init(ProducerAndEpoch(7, LAST), new_id=8) == ProducerAnswer(ErrorCode.none, 8, 0)
    assert stepped.init(ProducerAndEpoch(7, LAST)) == ProducerAnswer(ErrorCode.none, 8, 0)


def test_an_end_with_version_2_raises_the_epoch_of_the_markers() -> None:
    stepped = at_epoch(3)
    stepped.add(T0)
    assert stepped.end() == ProducerAnswer(ErrorCode.none, 7, 4)
    assert [(each.state.value, each.producer_epoch) for each in stepped.stored] == [
        ("Ongoing", 3),
        ("PrepareCommit", 4),
    ]


def test_an_end_of_an_earlier_version_keeps_the_epoch() -> None:
    stepped = at_epoch(3)
    stepped.add(T0, client=0)
    assert stepped.end(client=0).error_code is ErrorCode.none
    assert stepped.producer == (7, 3)


def test_an_end_with_the_last_epoch_replaces_the_id_when_it_is_complete() -> None:
    stepped = at_epoch(LAST)
    stepped.add(T0)
    old = stepped.producer
    assert stepped.end() is None
    assert stepped.end(new_id=9) == ProducerAnswer(ErrorCode.none, 9, 0)
    prepared = stepped.core.current
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, 32767, 9)
    stepped.step(_markers(stepped))
    assert (stepped.producer, stepped.core.current.previous_producer_id) == ((9, 0), 7)
    assert stepped.end(producer=old) == ProducerAnswer(ErrorCode.none, 9, 0)
    assert stepped.end(producer=old, commit=False).error_code is ErrorCode.invalid_txn_state


def _markers(stepped: SteppedTransaction) -> MarkersWritten:
    return MarkersWritten(stepped.producer)


@pytest.mark.parametrize(("server", "last_epoch", "version"), [(2, 3, 2), (1, -1, 0), (0, -1, 0)])
def test_a_fence_raises_the_epoch_once(server: int, last_epoch: int, version: int) -> None:
    stepped = at_epoch(3)
    stepped.add(T0)
    target = fenced(stepped.core.current, server, None, NOW_MS)
    assert target.state is TransactionState.PREPARE_ABORT
    assert (target.producer_epoch, target.last_producer_epoch, target.client_transaction_version) == (
        4,
        last_epoch,
        version,
    )
