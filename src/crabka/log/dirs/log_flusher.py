"""Chooses the logs that are to be flushed; the writers of their dirs flush each of them once at a time.

A flush that fails takes its dir offline.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from crabka.errors import StorageError

if TYPE_CHECKING:
    from crabka.log.dirs.dir_writer import DirWriter
    from crabka.log.partition.partition_log import PartitionLog


class LogFlusher:
    """The flushes of one node. Methods run on the loop."""

    def __init__(self, writers: Mapping[str, DirWriter]) -> None:
        self._writers = writers

    async def flush(self, log: PartitionLog) -> None:
        """Make durable what is in a log now, unless it is closed while another flush of it ends."""
        with contextlib.suppress(StorageError):
            await self._writers[log.log_dir].flush(log)

    def flush_dirty(self, logs: Iterable[PartitionLog], now_ms: int) -> asyncio.Future[list[Any]]:
        """Flush the logs with sealed segments not yet durable, or with `flush.ms` passed.

        The returned future needs no waiting for.
        """
        for log in logs:
            if log.durability.has_unflushed_segments() or now_ms - log.durability.last_flush_ms >= log.config.flush_ms:
                self._writers[log.log_dir].begin_flush(log, now_ms)
        return self.drain()

    def drain(self) -> asyncio.Future[list[Any]]:
        """Return a future that does not fail and is done when all flushes that run now are."""
        running = [flush for writer in self._writers.values() for flush in writer.running_flushes]
        return asyncio.gather(*running, return_exceptions=True)
