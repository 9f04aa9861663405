"""Which batches belong to aborted transactions."""

from __future__ import annotations

import pytest

from crabka.spark.decode import AbortedTransactions


@pytest.mark.parametrize(
    ("producer_id", "offset", "aborted"),
    [(7, 9, False), (7, 10, True), (7, 20, True), (7, 21, False), (7, 29, False), (7, 30, True), (8, 10, False)],
)
def test_spans_of_an_index_are_closed(producer_id: int, offset: int, aborted: bool) -> None:
    transactions = AbortedTransactions([(7, 30, 35), (7, 10, 20)])
    assert transactions.covers(producer_id, offset) is aborted
    assert not transactions.awaits_marker(7)


def test_a_span_within_another_does_not_end_it() -> None:
    transactions = AbortedTransactions([(7, 10, 20), (7, 15, 17), (7, 30, 35), (7, 33, 40)])
    covered = [offset for offset in range(50) if transactions.covers(7, offset)]
    assert covered == [*range(10, 21), *range(30, 41)]


def test_an_open_span_ends_at_the_marker_that_is_met() -> None:
    transactions = AbortedTransactions([(7, 10, None), (8, 5, None)])
    assert transactions.covers(7, 1_000)
    assert transactions.awaits_marker(7)
    transactions.end_at_marker(7, 20)
    assert transactions.covers(7, 19)
    assert not transactions.covers(7, 21)
    assert not transactions.awaits_marker(7)
    assert transactions.covers(8, 21)


def test_a_marker_leaves_later_transactions_of_its_producer_open() -> None:
    transactions = AbortedTransactions([(7, 10, None), (7, 30, None)])
    transactions.end_at_marker(7, 20)
    assert not transactions.covers(7, 25)
    assert transactions.covers(7, 31)
    assert transactions.awaits_marker(7)


def test_producers_are_known() -> None:
    assert AbortedTransactions([(7, 10, 20), (8, 1, None)]).producer_ids == {7, 8}
    assert AbortedTransactions([]).producer_ids == frozenset()
