"""The producer: batches records per partition and delivers them in order, each once (KIP-98).

`send` adds a record to the batch of its partition and returns a future for its offset; `sender` delivers the batches.
With `idempotent=False` retries can change the order unless `max_in_flight` is 1, and can write records twice.

With a `transactional_id` records are sent in transactions, whose phase `transactions` keeps. The order of calls is
`init_transactions` once, then `begin_transaction`, sends and offsets, and `commit_transaction` or `abort_transaction`;
`transaction` does the last three.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.errors import (
    AbortableTransactionError,
    ClientNetworkError,
    TransactionError,
    TransactionStateError,
)
from crabka.clients.producer.accumulator import RecordMetadata, record_size
from crabka.clients.producer.sender import Sender
from crabka.clients.producer.settings import MAX_IDEMPOTENT_IN_FLIGHT, ProducerSettings
from crabka.clients.producer.transaction_messages import GroupMembership, OffsetToCommit
from crabka.clients.producer.transactions import TransactionLimits, TransactionManager, TransactionPhase
from crabka.errors import CrabkaError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import HEADER_SIZE
from crabka.records.record import Headers, Record

__all__ = ["MAX_IDEMPOTENT_IN_FLIGHT", "Producer", "ProducerSettings"]


class Producer:
    """Sends records to a cluster. Use as an async context manager: leaving it flushes."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings | None = None) -> None:
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._settings = settings or ProducerSettings()
        self._transactions: TransactionManager | None = None
        if self._settings.transactional_id is not None:
            limits = TransactionLimits(self._settings.transaction_timeout_ms, self._settings.max_block_ms)
            self._transactions = TransactionManager(cluster, self._settings.transactional_id, limits)
        self._sender = Sender(cluster, self._settings, self._transactions)
        self._is_closed = False

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        await self.close(flush=exc_type is None)

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of records wait or are in flight."""
        return self._sender.buffer.size_bytes

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record and return a future for its offset; waits while the buffer is full.

        Raises OperationError for a topic or partition that stays unknown for `max_block_ms` and for a record beyond
        `max_request_bytes`, and ClientNetworkError when no broker answers in that time. A transactional producer raises
        TransactionError once its transaction has failed, and TransactionStateError outside of one.
        """
        if self._transactions is not None:
            self._transactions.require_open()
        size = record_size(key, value, headers)
        if size + HEADER_SIZE > self._settings.max_request_bytes:
            raise OperationError(ErrorCode.message_too_large, f"a record of {size} bytes is beyond max_request_bytes")
        metadata = await self._cluster.topic(topic, partition=partition, timeout_ms=self._settings.max_block_ms)
        await self._sender.wait_for_room(size)
        if partition is None:
            partition = self._sender.buffer.choose_partition(metadata, key, size)
        if self._transactions is not None:
            # Waiting for room or metadata took time: the transaction may have ended or failed.
            self._transactions.require_open()
            self._transactions.add(TopicPartition(topic, partition))
        record = Record(0, self._clock.now_ms() if timestamp is None else timestamp, key, value, headers)
        return self._sender.append(TopicPartition(topic, partition), record, size)

    async def send_and_wait(self, topic: str, value: bytes | None, key: bytes | None = None) -> RecordMetadata:
        """Send a record and wait until the broker has it."""
        return await (await self.send(topic, value, key))

    async def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed."""
        await self._sender.flush()

    async def close(self, *, flush: bool = True) -> None:
        """Flush, or fail what is left, and stop. Closing twice is allowed. The cluster stays open.

        Flushing aborts an open transaction, so that it does not block readers.
        """
        if flush and not self._is_closed:
            if self._transactions is not None and self._transactions.phase is TransactionPhase.OPEN:
                with contextlib.suppress(TransactionError, ClientNetworkError):
                    await self.abort_transaction()
            await self.flush()
        self._is_closed = True
        await self._sender.close()

    # -- transactions --------------------------------------------------------------------------------------------

    async def init_transactions(self) -> None:
        """Take over the transactional id: earlier producers with it are fenced, their open transaction is aborted.

        Raises FatalTransactionError, or ClientNetworkError when no coordinator answers in time: then call it again.
        """
        transactions = self._transactions_in_use()
        await transactions.init()
        self._sender.adopt_identity(transactions.identity)

    def begin_transaction(self) -> None:
        """Open a transaction: read_committed consumers read its records only after the commit.

        Raises TransactionError, TransactionStateError.
        """
        self._transactions_in_use().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetToCommit | int], group: GroupMembership | str
    ) -> None:
        """Commit offsets of a group as a part of the transaction; each is that of the next record to read.

        Raises TransactionError, TransactionStateError.
        """
        commits = {
            partition: offset if isinstance(offset, OffsetToCommit) else OffsetToCommit(offset)
            for partition, offset in offsets.items()
        }
        member = GroupMembership(group) if isinstance(group, str) else group
        await self._transactions_in_use().send_offsets(commits, member)

    async def commit_transaction(self) -> None:
        """Deliver the records of the transaction and commit it.

        Raises AbortableTransactionError when the transaction must be aborted, FatalTransactionError when the producer
        cannot continue, and ClientNetworkError when the outcome of the commit is unknown: then call it again.
        """
        transactions = self._transactions_in_use()
        transactions.start_ending(commit=True)
        await self._sender.flush()
        await transactions.end(commit=True)
        self._sender.adopt_identity(transactions.identity)

    async def abort_transaction(self) -> None:
        """Drop the records of the transaction and abort it. Raises as `commit_transaction`."""
        transactions = self._transactions_in_use()
        transactions.start_ending(commit=False)
        await self._sender.drop_all(
            AbortableTransactionError(ErrorCode.transaction_abortable, "the transaction was aborted")
        )
        await transactions.end(commit=False)
        self._sender.adopt_identity(transactions.identity)

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

    def _transactions_in_use(self) -> TransactionManager:
        if self._transactions is None:
            raise TransactionStateError("the producer has no transactional_id")
        return self._transactions
