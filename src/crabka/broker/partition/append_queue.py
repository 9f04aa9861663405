"""Appends that wait for a thread: preparation of records, writes to a slow log dir, flushes that a count demands.

One append of a partition runs at a time, in the order in which they were queued. Appends that need no thread bypass
the queue while it is empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import OperationError
from crabka.log.partition.append import AppendResult, prepare_batch
from crabka.log.partition.decompression import decompressed_limit
from crabka.log.producers.producer_state import AppendOrigin
from crabka.log.producers.verification import ANY_TERMS, AppendTerms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from crabka.broker.partition.partition import Partition
    from crabka.log.partition.append import PreparedBatch
    from crabka.ports import Buffer, Threads
    from crabka.records.header import BatchHeader

# A small batch is prepared faster than a thread is woken. A compressed one of this size can hold some megabytes.
MAX_INLINE_PREPARATION_BYTES: Final = 2048
MAX_INLINE_DECOMPRESSION_BYTES: Final = 512
MAX_INLINE_RECORDS: Final = 64


class AppendQueue:
    """The queue of one partition."""

    __slots__ = ("_partition", "_turn", "length", "pending_outcomes", "verifying")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        # Batches that wait for a thread or have one; while there are any, every append must be queued.
        self.length = 0
        # The last batch of each transactional producer that waits for its coordinator: the next one comes after it.
        self.verifying: dict[int, asyncio.Future[None]] = {}
        # Appends of the node itself whose outcome was not delivered yet: those of later ones must not overtake them.
        self.pending_outcomes = 0
        self._turn: asyncio.Lock | None = None

    def is_needed(
        self, batch_bytes: int, header: BatchHeader, *, validate: bool = False, is_prepared: bool = False
    ) -> bool:
        """Return whether a batch has to be queued.

        The reason is one of: its records are inspected, the log dir is slow, the log is flushed after it, or other
        batches are queued.
        """
        log = self._partition.log
        if self.length or validate or self._partition.writer.is_slow:
            return True
        if log.prepares_batches and not is_prepared:
            max_bytes = MAX_INLINE_DECOMPRESSION_BYTES if header.codec else MAX_INLINE_PREPARATION_BYTES
            if batch_bytes > max_bytes or header.records_count > MAX_INLINE_RECORDS:
                return True
        return log.flushes_by_count and log.flush_due(header.last_offset_delta + 1)

    def append(
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
        its frame is not kept as long. Raises as `Partition.append`, and OperationError (REQUEST_TIMED_OUT) when too
        much waits for the log dir already.
        """
        writer = self._partition.writer
        writer.hold(len(batch))
        self.length += 1
        append = functools.partial(self._append_in_steps, origin=origin, terms=terms)
        # The partition may lie in another log dir when it is its turn.
        release = functools.partial(writer.release, len(batch))
        return self._append_in_turn(
            threads, append, bytes(batch), header, now_ms, validate=validate, prepared=prepared, release=release
        )

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for all queued appends; later ones wait for the end of the block."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        self.length += 1
        try:
            async with self._turn:
                yield
        finally:
            self.length -= 1

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
        release: Callable[[], None],
    ) -> AppendResult:
        partition = self._partition
        if self._turn is None:
            self._turn = asyncio.Lock()
        try:
            # Locks are fair, and tasks start in the order of their creation: appends keep the order of requests.
            async with self._turn:
                log = partition.log
                must_prepare = (log.prepares_batches or validate) and not header.is_control
                if must_prepare and prepared is None:
                    limit = decompressed_limit(log.config) if header.codec else len(batch)
                    prepared = await log.decompression.run(
                        threads, limit, prepare_batch, batch, header, log.config, now_ms, validate=validate
                    )
                partition.require_leader()
                return await append(batch, header, now_ms, prepared)
        finally:
            self.length -= 1
            release()

    async def _append_in_steps(
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
        partition = self._partition
        log = partition.log
        pending = log.append_as_leader(
            batch,
            leader_epoch=partition.leader_epoch,
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
            result = await partition.writer.append(log, pending)
        except OperationError:
            # The log is closed. The partition knows the reason.
            partition.require_leader()
            raise
        partition.require_led_since(pending.leader_epoch)
        if log.flush_due():
            await partition.writer.flush(log)
        partition.require_led_since(pending.leader_epoch)
        partition.note_append(pending.size)
        return result
