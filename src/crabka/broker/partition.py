"""A partition that this node hosts: its log, who leads it, and who waits for it.

Owns the rules that need both the log and the metadata: epoch checks, the high watermark, min ISR. It knows
nothing of requests or wire formats.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import OperationError
from crabka.log.append import AppendResult, prepare_batch
from crabka.log.producer_state import AppendOrigin
from crabka.log.verification import ANY_TERMS, AppendTerms
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from crabka.broker.purgatory import Delayed
    from crabka.ids import TopicId
    from crabka.log.append import PreparedBatch
    from crabka.log.dir_writer import DirWriter
    from crabka.log.partition_log import PartitionLog
    from crabka.metadata.topics import PartitionImage
    from crabka.ports import Buffer, Threads
    from crabka.records.header import BatchHeader

LEADERSHIP_LOST: Final = -1
# A small batch is decompressed faster than a thread is woken.
MAX_INLINE_PREPARATION_BYTES: Final = 2048


class Partition:
    """State of one hosted partition. Hashed and compared by identity."""

    __slots__ = (
        "_refusal",
        "_turn",
        "_waiters",
        "in_sync_count",
        "index",
        "is_leader",
        "leader_epoch",
        "leader_id",
        "log",
        "queued",
        "replica_count",
        "topic",
        "topic_id",
        "verifying",
        "writer",
    )

    def __init__(self, topic: str, index: int, topic_id: TopicId, log: PartitionLog, writer: DirWriter) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.writer = writer
        self.leader_id = -1
        self.leader_epoch = -1
        self.is_leader = False
        self.in_sync_count = 0
        self.replica_count = 0
        # In the order of arrival, which is the order of the answers.
        self._waiters: dict[Delayed[Any], None] = {}
        # Batches on their way through a thread; while there are any, every append must queue behind them.
        self.queued = 0
        # The last batch of each transactional producer that waits for its coordinator: the next one goes behind it.
        self.verifying: dict[int, asyncio.Future[None]] = {}
        self._refusal = ErrorCode.not_leader_or_follower
        self._turn: asyncio.Lock | None = None

    def become(self, image: PartitionImage, *, node_id: int) -> None:
        """Take over what the metadata says of leader, epoch and ISR.

        A new leader epoch of a leader is recorded in the epoch cache before the first append under it.
        """
        was_leader = self.is_leader
        new_epoch = image.leader_epoch != self.leader_epoch
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.in_sync_count = len(image.isr)
        self.replica_count = len(image.replicas)
        self.is_leader = image.leader == node_id
        if self.is_leader and new_epoch:
            self.log.leader_epochs.assign(self.leader_epoch, self.log.next_append_offset)
        if self.is_leader:
            self._advance_high_watermark(0)
        elif was_leader:
            self.retire()

    def retire(self, refusal: ErrorCode = ErrorCode.not_leader_or_follower) -> None:
        """Stop leading: whoever waits here is answered now, with what can be said then.

        `refusal` is what appends get that still wait for their turn.
        """
        self.is_leader = False
        self._refusal = refusal
        for waiter in tuple(self._waiters):
            waiter.progressed(self, LEADERSHIP_LOST)

    def release_waiters(self) -> None:
        """Let whoever waits here be answered now."""
        for waiter in tuple(self._waiters):
            waiter.trigger()

    def must_queue(
        self, batch_bytes: int, header: BatchHeader, *, validate: bool = False, is_prepared: bool = False
    ) -> bool:
        """Return whether a batch has to wait for a thread: `append_queued` instead of `append`.

        So has one whose records are to be looked at, one for a slow log dir, one after which the log is to be flushed,
        and one behind others that are on their way.
        """
        if self.queued or validate or self.writer.is_slow:
            return True
        log = self.log
        if log.prepares_batches and not is_prepared and batch_bytes > MAX_INLINE_PREPARATION_BYTES:
            return True
        return log.flushes_by_count and log.flush_due(header.last_offset_delta + 1)

    def append_queued(
        self,
        threads: Threads,
        batch: Buffer,
        header: BatchHeader,
        now_ms: int,
        *,
        validate: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        terms: AppendTerms = ANY_TERMS,
        prepared: PreparedBatch | None = None,
    ) -> Coroutine[Any, Any, AppendResult]:
        """Return the append of a batch that is prepared, written or flushed in a thread.

        The place in the order of appends is taken by this call, not when the coroutine runs. The batch is copied:
        the frame that it lies in does not live as long. Raises as `append`, and OperationError (REQUEST_TIMED_OUT)
        when too much waits for the log dir already.
        """
        self.writer.hold(len(batch))
        self.queued += 1
        append = functools.partial(self._append_waiting, origin=origin, terms=terms)
        return self._append_in_turn(threads, append, bytes(batch), header, now_ms, validate=validate, prepared=prepared)

    async def _append_in_turn(
        self,
        threads: Threads,
        append: Callable[..., Awaitable[AppendResult]],
        batch: bytes,
        header: BatchHeader,
        now_ms: int,
        *,
        validate: bool,
        prepared: PreparedBatch | None,
    ) -> AppendResult:
        if self._turn is None:
            self._turn = asyncio.Lock()
        try:
            # Locks are fair, and tasks start in the order of their creation: appends keep the order of requests.
            async with self._turn:
                must_prepare = (self.log.prepares_batches or validate) and not header.is_control
                if must_prepare and prepared is None:
                    prepared = await threads.submit(
                        prepare_batch, batch, header, self.log.config, now_ms, validate=validate
                    )
                self.require_leader()
                return await append(batch, header, now_ms, prepared)
        finally:
            self.queued -= 1
            self.writer.release(len(batch))

    async def _append_waiting(
        self,
        batch: bytes,
        header: BatchHeader,
        now_ms: int,
        prepared: PreparedBatch | None,
        *,
        origin: AppendOrigin,
        terms: AppendTerms,
    ) -> AppendResult:
        """Append in steps, each of which may wait for a thread. The high watermark follows after the last one."""
        log = self.log
        pending = log.append_as_leader(
            batch,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            header=header,
            origin=origin,
            prepared=prepared,
            terms=terms,
            deferred=True,
        )
        if isinstance(pending, AppendResult):
            return pending
        try:
            result = await self.writer.append(log, pending)
        except OperationError:
            # The log is closed. Why, the partition knows better.
            self.require_leader()
            raise
        self.require_leader()
        plan = log.begin_flush() if log.flush_due() else None
        if plan is not None:
            await self.writer.flush(log, plan)
        self.require_leader()
        self._advance_high_watermark(pending.size)
        return result

    def append(self, batch: Buffer, header: BatchHeader, now_ms: int) -> AppendResult:
        """Append one checked client batch as leader and let the high watermark follow.

        Raises OperationError with Kafka's code, StorageError when the disk fails.
        """
        result = self.log.append_as_leader(batch, leader_epoch=self.leader_epoch, now_ms=now_ms, header=header)
        if not result.duplicate:
            self._advance_high_watermark(len(batch))
        return result

    def append_on_terms(
        self,
        batch: Buffer,
        header: BatchHeader,
        now_ms: int,
        *,
        terms: AppendTerms,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        prepared: PreparedBatch | None = None,
    ) -> AppendResult:
        """Append a batch of a transaction, the marker that ends one, or what the node built. Raises as `append`.

        `prepared` is given by whoever knows already what the topic's settings make of the batch.
        """
        result = self.log.append_as_leader(
            batch,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            header=header,
            origin=origin,
            prepared=prepared,
            terms=terms,
        )
        if not result.duplicate:
            self._advance_high_watermark(len(batch))
        return result

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this node leads the partition in the epoch that the client believes in (KIP-320)."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise OperationError(ErrorCode.fenced_leader_epoch)
            raise OperationError(ErrorCode.unknown_leader_epoch)
        if not self.is_leader:
            raise OperationError(self._refusal)

    def require_min_isr(self) -> None:
        """Raise if an acks=all append would not be as safe as the topic demands.

        The minimum is capped by the number of replicas, as Kafka does.
        """
        minimum = min(self.log.config.min_insync_replicas, self.replica_count)
        if self.in_sync_count < minimum:
            raise OperationError(ErrorCode.not_enough_replicas)

    @property
    def waiter_count(self) -> int:
        """Return how many requests wait for this partition."""
        return len(self._waiters)

    def add_waiter(self, waiter: Delayed[Any]) -> None:
        """Poke this waiter on every progress from now on."""
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Delayed[Any]) -> None:
        """Forget a waiter; unknown ones are fine."""
        self._waiters.pop(waiter, None)

    def _advance_high_watermark(self, appended_bytes: int) -> None:
        # The only replica in sync is this one: what it holds is replicated.
        log = self.log
        log.set_high_watermark(log.log_end_offset)
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.progressed(self, appended_bytes)
