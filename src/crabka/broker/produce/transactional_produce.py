"""Batches of a produce request that wait for the transaction coordinator, and enter their partitions after it agreed.

A later batch of the same producer to the same partition goes behind the one that waits, even if the coordinator has
answered meanwhile: sequences must not be overtaken.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.transactions.verification import ProduceVerification
from crabka.errors import OperationError
from crabka.log.producers.verification import AppendTerms
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabka.broker.context import BrokerContext
    from crabka.broker.partition.partition import Partition
    from crabka.broker.transactions.verification import TransactionalProducer
    from crabka.ports import Buffer
    from crabka.protocol.hot import ProducePartitionResult
    from crabka.records.header import BatchHeader

    Append = Callable[[Partition, bytes, BatchHeader, AppendTerms], Awaitable[ProducePartitionResult]]
    Refuse = Callable[[int, OperationError], ProducePartitionResult]


class _Waiting(NamedTuple):
    """One batch: what it goes behind, what goes behind it, and its row of the response."""

    batch: bytes
    header: BatchHeader
    previous: asyncio.Future[None] | None
    turn: asyncio.Future[None]
    result: asyncio.Future[ProducePartitionResult]


class TransactionalProduce:
    """The batches of one request that have to wait. `add` them all, then `run`."""

    def __init__(self, context: BrokerContext, producer: TransactionalProducer, version: int) -> None:
        self._producer = producer
        self._verification = ProduceVerification(context, producer, version)
        self._waiting: dict[Partition, _Waiting] = {}

    def add(self, partition: Partition, batch: Buffer, header: BatchHeader) -> asyncio.Future[ProducePartitionResult]:
        """Take the batch's place in the order of its producer; return the future of its row.

        The batch is copied, the frame that it lies in does not live as long. Raises OperationError
        (INVALID_PRODUCER_ID_MAPPING, INVALID_REQUEST) if the batches of the request do not go together.
        """
        if (header.producer_id, header.producer_epoch) != self._producer[1:]:
            raise OperationError(
                ErrorCode.invalid_producer_id_mapping, "Transactional records contained more than one producer ID"
            )
        if partition in self._waiting:
            raise OperationError(ErrorCode.invalid_request, "A partition must not occur twice in a request")
        loop = asyncio.get_running_loop()
        previous = partition.queue.verifying.get(header.producer_id)
        waiting = _Waiting(bytes(batch), header, previous, loop.create_future(), loop.create_future())
        partition.queue.verifying[header.producer_id] = waiting.turn
        self._waiting[partition] = waiting
        return waiting.result

    async def run(self, append: Append, refuse: Refuse) -> None:
        """Ask the coordinator, append what it agrees to and resolve the rows."""
        try:
            for waiting in self._waiting.values():
                if waiting.previous is not None:
                    await waiting.previous
            sequences = {partition: waiting.header.base_sequence for partition, waiting in self._waiting.items()}
            for partition, verdict in (await self._verification.run(sequences)).items():
                waiting = self._waiting[partition]
                if isinstance(verdict, OperationError):
                    row = refuse(partition.index, verdict)
                else:
                    row = await append(partition, waiting.batch, waiting.header, AppendTerms(verdict))
                # The connection may be gone.
                if not waiting.result.done():
                    waiting.result.set_result(row)
        finally:
            self._end_turns()

    def _end_turns(self) -> None:
        for partition, waiting in self._waiting.items():
            if partition.queue.verifying.get(waiting.header.producer_id) is waiting.turn:
                del partition.queue.verifying[waiting.header.producer_id]
            waiting.turn.set_result(None)
            # A row that never came is not waited for any more.
            waiting.result.cancel()
