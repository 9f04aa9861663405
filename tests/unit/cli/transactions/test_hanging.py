"""Which open transactions hang. That they are found on a node is tested with `crabka doctor`."""

from __future__ import annotations

from crabka.cli.transactions.hanging import OpenInPartition, overdue_producers, without_coordinator
from crabka.clients.admin.admin_types import ActiveProducer
from crabka.clients.admin.transactions import TransactionDescription
from crabka.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW, LIMIT = 1_000_000, 60_000
OPEN = ActiveProducer(7, 0, 0, NOW - LIMIT - 1, 0, 40)


def described(producer_id: int, *partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription("id", 1, "Ongoing", producer_id, 0, LIMIT, 0, partitions)


def test_producers_are_overdue_if_their_last_record_is_older_than_any_transaction() -> None:
    recent = OPEN._replace(last_timestamp=NOW - LIMIT)
    ended = OPEN._replace(current_transaction_start_offset=-1)
    assert overdue_producers({T1: [OPEN], T0: [recent, ended]}, NOW, LIMIT) == [OpenInPartition(T1, OPEN)]


def test_what_a_coordinator_knows_does_not_hang() -> None:
    overdue = [OpenInPartition(T0, OPEN)]
    assert without_coordinator(overdue, [described(7, T1, T0)]) == []
    # Another partition, another producer, or an id that has ended since.
    assert without_coordinator(overdue, [described(7, T1), described(8, T0), described(7)]) == overdue
