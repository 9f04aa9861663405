"""A partition that this node hosts. Here are the appends of its leader, at once or in turn through a thread.

Its bases own the rules that need both the log and the metadata: epoch checks, the high watermark, the followers. It
knows nothing of requests or wire formats.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any, Final

from crabka.broker.partition.followers import PartitionFollowers
from crabka.broker.partition.replicas import LEADERSHIP_LOST
from crabka.errors import OperationError
from crabka.log.partition.append import AppendResult, prepare_batch
from crabka.log.partition.decompression import decompressed_limit
from crabka.log.producers.producer_state import AppendOrigin
from crabka.log.producers.verification import ANY_TERMS, AppendTerms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from crabka.log.partition.append import PreparedBatch
    from crabka.ports import Buffer, Threads
    from crabka.records.header import BatchHeader

__all__ = ["LEADERSHIP_LOST", "MAX_INLINE_PREPARATION_BYTES", "Partition"]

# A small batch is looked into faster than a thread is woken. A compressed one of this size can hold some megabytes.
MAX_INLINE_PREPARATION_BYTES: Final = 2048
MAX_INLINE_DECOMPRESSION_BYTES: Final = 512
MAX_INLINE_RECORDS: Final = 64


class Partition(PartitionFollowers):
    """State of one hosted partition. Hashed and compared by identity."""

    __slots__ = ()

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
        if log.prepares_batches and not is_prepared:
            max_bytes = MAX_INLINE_DECOMPRESSION_BYTES if header.codec else MAX_INLINE_PREPARATION_BYTES
            if batch_bytes > max_bytes or header.records_count > MAX_INLINE_RECORDS:
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
        # The partition may lie in another log dir when it is its turn.
        release = functools.partial(self.writer.release, len(batch))
        return self._append_in_turn(
            threads, append, bytes(batch), header, now_ms, validate=validate, prepared=prepared, release=release
        )

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
        if self._turn is None:
            self._turn = asyncio.Lock()
        try:
            # Locks are fair, and tasks start in the order of their creation: appends keep the order of requests.
            async with self._turn:
                must_prepare = (self.log.prepares_batches or validate) and not header.is_control
                if must_prepare and prepared is None:
                    config = self.log.config
                    limit = decompressed_limit(config) if header.codec else len(batch)
                    prepared = await self.log.decompression.run(
                        threads, limit, prepare_batch, batch, header, config, now_ms, validate=validate
                    )
                self.require_leader()
                return await append(batch, header, now_ms, prepared)
        finally:
            self.queued -= 1
            release()

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
        self.require_led_since(pending.leader_epoch)
        if log.flush_due():
            await self.writer.flush(log)
        self.require_led_since(pending.leader_epoch)
        self._advance_high_watermark(pending.size)
        return result

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Change the log, as a follower, behind all appends that wait for a thread; later ones wait for the end."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        self.queued += 1
        try:
            async with self._turn:
                yield
        finally:
            self.queued -= 1

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
