"""Makes logs durable in threads, each log once at a time. A flush that fails takes its dir offline."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import StorageError
from crabka.runtime.thread_share import ThreadShare

if TYPE_CHECKING:
    from crabka.log.dir_writer import DirWriter
    from crabka.log.flushing import FlushPlan
    from crabka.log.partition_log import PartitionLog
    from crabka.ports import Runtime

FLUSHES_AT_ONCE: Final = 32


class LogFlusher:
    """The flushes of one node. Methods run on the loop."""

    def __init__(
        self, runtime: Runtime, writers: Mapping[str, DirWriter], on_failure: Callable[[str, Exception], None]
    ) -> None:
        self._runtime = runtime
        # All logs may be due at once: so many flushes are with the pool, the others wait for their turn.
        self._threads = ThreadShare(runtime.threads, FLUSHES_AT_ONCE)
        self._writers = writers
        self._on_failure = on_failure
        self._running: dict[PartitionLog, asyncio.Future[None]] = {}

    async def flush(self, log: PartitionLog, is_open: Callable[[], bool]) -> None:
        """Make durable what is in a log now, unless it is closed while another flush of it ends."""
        end_offset = log.log_end_offset
        if log in self._running:
            await asyncio.gather(self._running[log], return_exceptions=True)
        if log.recovery_point >= end_offset or not is_open():
            return
        plan = log.begin_flush() if log not in self._running else None
        if plan is not None:
            self._start(log, plan, self._runtime.clock.now_ms())
        await asyncio.gather(self._running[log], return_exceptions=True)

    def flush_dirty(self, logs: Iterable[PartitionLog], now_ms: int) -> asyncio.Future[list[Any]]:
        """Flush the logs with sealed segments not yet durable, or with `flush.ms` passed.

        The returned future needs no waiting for.
        """
        for log in logs:
            due = log.has_unflushed_segments() or now_ms - log.last_flush_ms >= log.config.flush_ms
            plan = log.begin_flush() if due and log not in self._running else None
            if plan is not None:
                self._start(log, plan, now_ms)
        return self.drain()

    def drain(self) -> asyncio.Future[list[Any]]:
        """Return a future that does not fail and is done when all flushes that run now are."""
        return asyncio.gather(*self._running.values(), return_exceptions=True)

    def _start(self, log: PartitionLog, plan: FlushPlan, now_ms: int) -> None:
        writer = self._writers[log.log_dir]
        # A slow dir has one thread, so that it does not take all of the pool.
        future = writer.run(plan.run) if writer.is_slow else self._threads.submit(plan.run)
        self._running[log] = future
        future.add_done_callback(partial(self._on_done, log, plan, now_ms))

    def _on_done(self, log: PartitionLog, plan: FlushPlan, now_ms: int, future: asyncio.Future[None]) -> None:
        del self._running[log]
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            log.finish_flush(plan, now_ms)
        elif isinstance(error, (OSError, StorageError)):
            # By then the log may lie in another dir.
            self._on_failure(posixpath.dirname(plan.directory), error)
        else:
            raise error
