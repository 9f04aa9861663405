"""The fate of transactions during a cleaning."""

from __future__ import annotations

from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.cleaner.transactions import CleanedTransactions
from crabka.records.control import EndTransactionMarker
from crabka.records.header import BatchHeader, parse_header
from tests.support.storage.small import ProducerFields, make_batch

COMMIT = EndTransactionMarker(committed=True, coordinator_epoch=0)
ABORT = EndTransactionMarker(committed=False, coordinator_epoch=0)


def data(offset: int, producer_id: int = 1, *, transactional: bool = True) -> BatchHeader:
    producer = ProducerFields(producer_id)
    return parse_header(make_batch(producer=producer, base_offset=offset, transactional=transactional))


def test_data_of_aborted_transactions_are_distinguished_from_others() -> None:
    transactions = CleanedTransactions([AbortedTransaction(1, 5, 9, 10)])
    assert not transactions.is_aborted(data(3))
    assert not transactions.is_marker_unneeded(data(4), COMMIT)
    assert transactions.is_aborted(data(5))
    assert not transactions.is_aborted(data(6, producer_id=2))
    assert not transactions.is_aborted(data(7, transactional=False))
    assert not transactions.is_marker_unneeded(data(9), ABORT)
    assert not transactions.is_aborted(data(11))


def test_an_abort_marker_is_needed_while_data_are_there_and_its_index_entry_with_it() -> None:
    entry = AbortedTransaction(1, 5, 9, 10)
    transactions = CleanedTransactions([entry, entry])
    transactions.is_aborted(data(5))
    assert not transactions.is_marker_unneeded(data(9), ABORT)
    assert transactions.take_kept() == [entry]
    assert transactions.take_kept() == []
    without_data = CleanedTransactions([entry])
    assert without_data.is_marker_unneeded(data(9), ABORT)
    assert without_data.take_kept() == []


def test_a_commit_marker_is_needed_while_data_are_there() -> None:
    transactions = CleanedTransactions([])
    transactions.is_aborted(data(1))
    assert not transactions.is_marker_unneeded(data(2), COMMIT)
    assert transactions.is_marker_unneeded(data(3), COMMIT)


def test_a_marker_that_was_emptied_is_not_needed() -> None:
    assert CleanedTransactions([]).is_marker_unneeded(data(1), None)


def test_a_producer_may_abort_again() -> None:
    transactions = CleanedTransactions([AbortedTransaction(1, 5, 6, 7), AbortedTransaction(1, 7, 8, 9)])
    assert transactions.is_aborted(data(5))
    assert not transactions.is_marker_unneeded(data(6), ABORT)
    assert transactions.is_aborted(data(7))
    assert not transactions.is_marker_unneeded(data(8), ABORT)
    assert len(transactions.take_kept()) == 2
