"""How batches get into one log dir: on the loop while the dir is fast, in a thread while it is slow.

Decides whether the dir is slow, and owns the queue of work for its thread. A dir has at most one thread of the pool at
a time, so a slow one holds up neither the loop nor the other dirs; what is queued runs in order. The metadata log
does not use it. It knows no requests; the caller keeps the order of the appends of a log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from crabka.errors import CrabkaError, OperationError, StorageError
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime.thread_share import ThreadShare

if TYPE_CHECKING:
    from crabka.log.partition.append import AppendResult, PendingAppend
    from crabka.log.partition.copying import PendingCopy
    from crabka.log.partition.flushing import FlushPlan
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import Runtime

logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_SLOW_APPEND_MS: Final = 500
# A dir is fast again after this many writes in a row, each below a tenth of the limit.
RECOVERY_WRITE_COUNT: Final = 16
RECOVERY_FRACTION: Final = 10
# Batches that wait for a slow dir, in bytes; one may exceed it. Connections bound their own part of it.
MAX_HELD_BYTES: Final = 64 * 1024 * 1024
FLUSHES_AT_ONCE: Final = 32


@dataclass(slots=True, eq=False)
class _Job:
    """Work for the thread, and a function to call on the loop with the error, if there was one."""

    work: Callable[[], None]
    done: Callable[[BaseException | None], None]
    is_write: bool = True


class DirWriter:
    """Writes to one log dir. All methods run on the loop."""

    def __init__(
        self, runtime: Runtime, path: str, *, slow_append_ms: int, on_failure: Callable[[str, Exception], None]
    ) -> None:
        self._threads = runtime.threads
        self._clock = runtime.clock
        self.now_ms = runtime.clock.now_ms
        self._on_failure = on_failure
        self._jobs: deque[_Job] = deque()
        self._idle: asyncio.Event | None = None
        self._fast_writes = 0
        # All logs may be due at once: so many flushes are with the pool, the others wait for their turn.
        self._flush_threads = ThreadShare(runtime.threads, FLUSHES_AT_ONCE)
        # The flush of each log that is under way.
        self._flushes: dict[PartitionLog, asyncio.Future[None]] = {}
        self.path = path
        self.slow_append_ms = slow_append_ms
        self.is_slow = False
        self.held_bytes = 0

    # -- waiting batches ------------------------------------------------------------------------------------------

    def hold(self, size: int) -> None:
        """Count a batch that waits. Raises OperationError (REQUEST_TIMED_OUT) when too much waits for a slow dir."""
        if self.is_slow and self.held_bytes and self.held_bytes + size > MAX_HELD_BYTES:
            raise OperationError(ErrorCode.request_timed_out, f"The log dir is slow: {self.held_bytes} bytes wait")
        self.held_bytes += size

    def release(self, size: int) -> None:
        """Count a batch no longer."""
        self.held_bytes -= size

    # -- writing -------------------------------------------------------------------------------------------------

    async def append(self, log: PartitionLog, pending: PendingAppend) -> AppendResult:
        """Write and finish an append, in the thread if the dir is slow. It continues if the caller is cancelled.

        Raises StorageError when the disk fails, OperationError if the log was closed meanwhile or the threads ended
        before the write.
        """
        return await self._write(log, pending.write, lambda: log.finish_append(pending))

    async def copy(self, log: PartitionLog, pending: PendingCopy) -> None:
        """Write and finish batches of a leader, as `append` does with one of a client."""
        await self._write(log, pending.write, lambda: log.copying.finish_copy(pending))

    async def _write(self, log: PartitionLog, write: Callable[[], None], finish: Callable[[], T]) -> T:
        if self.is_slow:
            result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._enqueue(_Job(write, lambda error: self._settle_append(log, finish, result, error)))
            return await result
        started_ms = self._clock.monotonic_ms()
        try:
            write()
        except OSError as error:
            log.abandon_append()
            raise StorageError(self.path, f"{log.topic_partition}: {error}") from error
        self.note_append(self._clock.monotonic_ms() - started_ms)
        return finish()

    # -- flushing ------------------------------------------------------------------------------------------------

    async def flush(self, log: PartitionLog) -> None:
        """Make the present content of a log durable, in a thread; a log that is closed meanwhile is skipped.

        A running flush does not cover appends after its start: the next one does, for all callers that wait.
        Raises StorageError when the disk fails, after the dir was reported.
        """
        if log in self._flushes:
            await asyncio.shield(self._flushes[log])
        following = self._flushes.get(log) or self.begin_flush(log)
        if following is not None:
            await asyncio.shield(following)

    def begin_flush(self, log: PartitionLog, now_ms: int | None = None) -> asyncio.Future[None] | None:
        """Begin to flush a log; return its end, None if it is clean, closed, or being flushed. Takes note of `now_ms`.

        The future fails with StorageError when the disk does.
        """
        plan = log.durability.begin_flush() if log.is_open and log not in self._flushes else None
        if plan is None:
            return None
        # A slow dir has one thread, so that it does not take all of the pool.
        work = self.run(plan.run) if self.is_slow else self._flush_threads.submit(plan.run)
        result: asyncio.Future[None] = work.get_loop().create_future()
        # It may have no waiter.
        result.add_done_callback(_retrieve)
        self._flushes[log] = result
        work.add_done_callback(lambda done: self._end_flush(log, plan, now_ms, done))
        return result

    def _end_flush(self, log: PartitionLog, plan: FlushPlan, now_ms: int | None, work: asyncio.Future[None]) -> None:
        result = self._flushes.pop(log)
        error = _error_of(work)
        if error is None:
            log.durability.finish_flush(plan, now_ms)
        else:
            log.durability.fail_flush(plan)
        _settle(result, None, self._failure(error))

    @property
    def running_flushes(self) -> list[asyncio.Future[None]]:
        """The flushes that are under way."""
        return list(self._flushes.values())

    # -- work in order -------------------------------------------------------------------------------------------

    def run(self, work: Callable[[], None], then: Callable[[], None] = lambda: None) -> asyncio.Future[None]:
        """Do work for the dir in the thread, in order, and then call `then` on the loop, also without a waiter.

        An OSError takes the dir offline, and the future fails with StorageError.
        """
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: BaseException | None) -> None:
            if error is None:
                then()
            _settle(result, None, self._failure(error))

        self._enqueue(_Job(work, done, is_write=False))
        return result

    async def drain(self) -> None:
        """Wait until nothing is queued."""
        while self._jobs:
            if self._idle is None:
                self._idle = asyncio.Event()
            await self._idle.wait()

    def _settle_append(
        self, log: PartitionLog, finish: Callable[[], T], result: asyncio.Future[T], error: BaseException | None
    ) -> None:
        if error is not None:
            log.abandon_append()
            _settle(result, None, self._failure(error))
            return
        try:
            _settle(result, finish(), None)
        except CrabkaError as refusal:
            _settle(result, None, refusal)

    def _failure(self, error: BaseException | None) -> BaseException | None:
        if not isinstance(error, OSError):
            return error
        self._on_failure(self.path, error)
        return StorageError(self.path, str(error))

    # -- the thread ----------------------------------------------------------------------------------------------

    def _enqueue(self, job: _Job) -> None:
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._start_first()

    def _start_first(self) -> None:
        job, started_ms = self._jobs[0], self._clock.monotonic_ms()

        def on_done(future: asyncio.Future[None]) -> None:
            if job.is_write:
                self._note_threaded(self._clock.monotonic_ms() - started_ms)
            try:
                job.done(_error_of(future))
            finally:
                self._jobs.popleft()
                if self._jobs:
                    self._start_first()
                elif self._idle is not None:
                    self._idle.set()
                    self._idle = None

        try:
            future = self._threads.submit(job.work)
        except RuntimeError:  # the pool was closed
            future = asyncio.get_running_loop().create_future()
            future.cancel()
        future.add_done_callback(on_done)

    # -- slow or fast -------------------------------------------------------------------------------------------

    def note_append(self, elapsed_ms: int) -> None:
        """Decide whether the dir is slow, from the time of an append on the loop."""
        if elapsed_ms > self.slow_append_ms and not self.is_slow:
            self.is_slow = True
            self._fast_writes = 0
            logger.warning(
                "log dir %s is slow: an append took %d ms; a thread writes to it until it recovers",
                self.path,
                elapsed_ms,
            )

    def _note_threaded(self, elapsed_ms: int) -> None:
        self._fast_writes = self._fast_writes + 1 if elapsed_ms * RECOVERY_FRACTION < self.slow_append_ms else 0
        if self.is_slow and self._fast_writes >= RECOVERY_WRITE_COUNT:
            self.is_slow = False
            logger.info("log dir %s is fast again", self.path)


def _error_of(work: asyncio.Future[None]) -> BaseException | None:
    """Return why a thread did not do its work, None if it did. Work that was dropped has an error, too."""
    if work.cancelled():
        return OperationError(ErrorCode.kafka_storage_error, "The node stops: no thread is left for the log dir")
    return work.exception()


def _retrieve(future: asyncio.Future[None]) -> None:
    """Retrieve a failure that has no waiter: the dir was reported."""
    if not future.cancelled():
        future.exception()


def _settle(future: asyncio.Future[T], value: T | None, error: BaseException | None) -> None:
    if future.done():  # the waiter was cancelled
        return
    if error is None:
        future.set_result(value)  # type: ignore[arg-type] # None comes with an error, or is the value
    else:
        future.set_exception(error)
