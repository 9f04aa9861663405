"""The transactional ids of one partition of `__transaction_state`: the state after a replay of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.coordinators.loader import replay_records
from crabka.broker.transactions.records import decode_transaction
from crabka.broker.transactions.transaction import Transaction

if TYPE_CHECKING:
    from crabka.broker.transactions.state import TransactionSnapshot
    from crabka.records.header import BatchHeader

TRANSACTIONS_TOPIC = "__transaction_state"


class TransactionShard:
    """Transactions of one partition, by transactional id."""

    __slots__ = ("transactions",)

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}

    def replay(self, transactional_id: str, snapshot: TransactionSnapshot | None) -> None:
        """Apply a record of the log; the last one of an id is valid."""
        if snapshot is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = Transaction(transactional_id, snapshot)


def replay_transactions(shard: TransactionShard, batch: memoryview, header: BatchHeader, _now_ms: int) -> int:
    """Apply one batch; return its number of records."""
    if header.is_control:
        return 1
    return replay_records(
        batch, header, TRANSACTIONS_TOPIC, decode=decode_transaction, apply=lambda stored: shard.replay(*stored)
    )
