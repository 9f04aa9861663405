"""The transactional ids of one partition of `__transaction_state`: the state after a replay of its records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.broker.transactions.records import decode_transaction
from crabka.broker.transactions.transaction import Transaction
from crabka.errors import WireError
from crabka.records.record import decode_records

if TYPE_CHECKING:
    from crabka.broker.transactions.state import TransactionSnapshot
    from crabka.records.header import BatchHeader

logger = logging.getLogger(__name__)

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
    records = decode_records(batch, header)
    for record in records:
        if record.key is None:
            continue
        try:
            stored = decode_transaction(record.key, record.value)
        except WireError as error:
            # One id may be lost, not the whole partition.
            logger.warning("The record at offset %d of %s cannot be read: %s", record.offset, TRANSACTIONS_TOPIC, error)
            continue
        if stored is None:
            logger.warning("The record at offset %d of %s is of an unknown kind", record.offset, TRANSACTIONS_TOPIC)
        else:
            shard.replay(*stored)
    return len(records)
