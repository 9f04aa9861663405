"""The calls with which an application drives the transactions of a producer (KIP-98).

The order is `init_transactions` once, then `begin_transaction`, sends and offsets, and `commit_transaction` or
`abort_transaction`; `transaction` does the last three. The producer gives the batches, `transactions` the phases.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping

from crabka._kio import ErrorCode
from crabka.clients.errors import AbortableTransactionError, TransactionStateError
from crabka.clients.transaction_messages import GroupMembership, OffsetToCommit
from crabka.clients.transactions import TransactionManager, TransactionPhase
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition


class ProducerTransactions(ABC):
    """What a producer offers once it has a transactional id."""

    _transactions: TransactionManager | None

    async def init_transactions(self) -> None:
        """Take over the transactional id: earlier producers with it are fenced, their open transaction is aborted.

        Raises FatalTransactionError, or ClientNetworkError when no coordinator answers in time: then try again.
        """
        await self._transactions_in_use().init()
        self._adopt_identity()

    def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on is read by read_committed consumers after the commit alone.

        Raises TransactionError, TransactionStateError.
        """
        self._transactions_in_use().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetToCommit | int], group: GroupMembership | str
    ) -> None:
        """Commit how far a group has read as a part of the transaction; offsets are those of the next records.

        Raises TransactionError, TransactionStateError.
        """
        commits = {
            partition: offset if isinstance(offset, OffsetToCommit) else OffsetToCommit(offset)
            for partition, offset in offsets.items()
        }
        member = GroupMembership(group) if isinstance(group, str) else group
        await self._transactions_in_use().send_offsets(commits, member)

    async def commit_transaction(self) -> None:
        """Deliver what was sent and commit it.

        Raises AbortableTransactionError when the transaction must be aborted, FatalTransactionError when the producer
        is of no use any more, and ClientNetworkError when it is not known whether the commit happened: call it again.
        """
        transactions = self._transactions_in_use()
        transactions.start_ending(commit=True)
        await self.flush()
        await transactions.end(commit=True)
        self._adopt_identity()

    async def abort_transaction(self) -> None:
        """Drop what was sent and abort. Raises as `commit_transaction`."""
        transactions = self._transactions_in_use()
        transactions.start_ending(commit=False)
        await self._drop_all(AbortableTransactionError(ErrorCode.transaction_abortable, "the transaction was aborted"))
        await transactions.end(commit=False)
        self._adopt_identity()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction, commit it at the end of the block, or abort it when the block or the commit fails."""
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            if self._transactions_in_use().phase in (TransactionPhase.OPEN, TransactionPhase.MUST_ABORT):
                with contextlib.suppress(CrabkaError):
                    await self.abort_transaction()
            raise

    @abstractmethod
    async def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed."""

    @abstractmethod
    async def _drop_all(self, error: Exception) -> None:
        """Fail what is not sent yet, and wait until nothing is in flight."""

    @abstractmethod
    def _adopt_identity(self) -> None:
        """Go on with the identity of the next transaction."""

    def _transactions_in_use(self) -> TransactionManager:
        if self._transactions is None:
            raise TransactionStateError("the producer has no transactional_id")
        return self._transactions
