"""Carries out on the logs what followers decide: appends, cuts, new beginnings, the leader's offsets.

An append goes into the page cache on the loop, as that of a leader does. Where another task uses the log, or its dir
is slow or must be flushed, it waits in a task, and so does every cut. What was decided for one leader epoch is not done
in another: a change that waited is checked again before it is made.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from crabka.broker.replication.follower_state import FetchFailed, LogBroken, LogChanged, LogRejected
from crabka.broker.tiering.read.deadline import RemoteWaitOverError
from crabka.errors import CorruptDataError, CrabkaError, OperationError, StorageError
from crabka.records.header import HEADER_SIZE, parse_header
from crabka.remote.errors import RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence

    from crabka.broker.partition.partition import Partition
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.broker.replication.followed import FollowedPartition
    from crabka.broker.replication.follower_state import (
        AppendFetched,
        CutFollowerLog,
        FollowerEvent,
        RebuildFromTier,
        RestartLog,
    )
    from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
    from crabka.log.dirs.dir_writer import DirWriter
    from crabka.ports import Clock

logger = logging.getLogger(__name__)


class FollowerChanges:
    """What the fetchers of a node do to its logs."""

    def __init__(
        self,
        clock: Clock,
        partitions: PartitionRegistry,
        *,
        on_dir_failure: Callable[[str, Exception], None],
        save_recovery_points: Callable[[Iterable[str]], Awaitable[None]],
        tier: FollowerTier,
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._on_dir_failure = on_dir_failure
        self._save_recovery_points = save_recovery_points
        self._tier = tier

    def counts(self, followed: FollowedPartition) -> bool:
        """Return whether a fetcher still decides on a log: no one else does, and its dir has not failed."""
        partition = followed.partition
        return followed.is_current and self._partitions.get(partition.topic, partition.index) is partition

    # -- appending -----------------------------------------------------------------------------------------------

    @staticmethod
    def must_wait(partition: Partition) -> bool:
        """Return whether an append has to be done by `append_later`."""
        log = partition.log
        return partition.queue.length > 0 or partition.writer.is_slow or log.flushes_by_count or log.is_being_written

    def append(self, followed: FollowedPartition, records: memoryview, action: AppendFetched) -> FollowerEvent:
        """Append what was fetched and take over the offsets of the leader, at once."""
        partition = followed.partition
        log, clock = partition.log, self._clock
        started_ms = clock.monotonic_ms()
        try:
            self._make_room(followed, records)
            size = log.copying.append_as_follower(records, now_ms=clock.now_ms(), max_epoch=followed.leader_epoch)
            self.take_offsets(partition, action.high_watermark, action.log_start_offset, size)
        except (OperationError, StorageError, CorruptDataError) as error:
            return self._failed(followed, error)
        partition.writer.note_append(clock.monotonic_ms() - started_ms)
        return LogChanged()

    def append_later(
        self, followed: FollowedPartition, records: memoryview, action: AppendFetched
    ) -> Coroutine[Any, Any, FollowerEvent | None]:
        """Return the append that waits for its turn, in a thread if the dir is slow; None comes if it counts no longer.

        The records are copied: their frame, of which they may be a small part, does not wait. Raises OperationError
        (REQUEST_TIMED_OUT) when too much waits for the log dir already.
        """
        writer = followed.partition.writer
        writer.hold(len(records))
        return self._append_in_turn(followed, memoryview(bytes(records)), action, holder=writer)

    async def _append_in_turn(
        self, followed: FollowedPartition, records: memoryview, action: AppendFetched, *, holder: DirWriter
    ) -> FollowerEvent | None:
        partition = followed.partition
        log = partition.log
        size = 0
        try:
            async with self._turn(partition):
                # Only now is it certain which log dir the partition lies in.
                writer = partition.writer
                if not self.counts(followed):
                    return None
                self._make_room(followed, records)
                now_ms = self._clock.now_ms()
                for pending in log.copying.copies(records, now_ms=now_ms, max_epoch=followed.leader_epoch):
                    await writer.copy(log, pending)
                    size += len(pending.data)
                    if not self.counts(followed):
                        return None
                if log.flushes_by_count and log.flush_due():
                    await writer.flush(log)
            if self.counts(followed):
                self.take_offsets(partition, action.high_watermark, action.log_start_offset, size)
        except (OperationError, StorageError, CorruptDataError) as error:
            return self._failed(followed, error)
        finally:
            holder.release(len(records))
        return LogChanged()

    @staticmethod
    @asynccontextmanager
    async def _turn(partition: Partition) -> AsyncIterator[None]:
        """Use the log alone: after all queued appends, and after a write whose task was cancelled."""
        async with partition.queue.turn():
            if partition.log.is_being_written:
                await partition.writer.drain()
            yield

    @staticmethod
    def take_offsets(partition: Partition, high_watermark: int, log_start_offset: int, appended_bytes: int) -> None:
        """Take over the offsets of the leader, as far as the log has them, and wake who waits for the partition."""
        log = partition.log
        before = log.high_watermark
        if high_watermark != before and high_watermark >= 0:
            log.set_high_watermark(high_watermark)
        if log_start_offset > log.log_start_offset:
            log.retention.delete_records_before(min(log_start_offset, log.high_watermark))
        if appended_bytes or log.high_watermark != before:
            partition.waiters.note_followed(appended_bytes)

    def _make_room(self, followed: FollowedPartition, records: memoryview) -> None:
        """Let an empty log begin with the first batch, if the leader's log start lies inside of that."""
        log = followed.partition.log
        if log.log_start_offset != log.log_end_offset or len(records) < HEADER_SIZE:
            return
        header = parse_header(records)
        if header.base_offset < log.log_end_offset <= header.last_offset:
            log.truncation.truncate_fully(header.base_offset, now_ms=self._clock.now_ms())

    # -- cutting -------------------------------------------------------------------------------------------------

    async def restart(self, followed: FollowedPartition, action: RestartLog) -> FollowerEvent | None:
        """Drop a whole log and let it begin anew. None if that no longer counts."""
        partition = followed.partition
        try:
            async with self._turn(partition):
                if not self.counts(followed):
                    return None
                logger.warning(
                    "%s-%d begins anew at %d, where the leader's log begins: from %d to %d it has nothing of that",
                    partition.topic,
                    partition.index,
                    action.start_offset,
                    partition.log.log_start_offset,
                    partition.log.log_end_offset,
                )
                partition.log.truncation.truncate_fully(action.start_offset, now_ms=self._clock.now_ms())
                await self._save_recovery_points([partition.log.log_dir])
        except (StorageError, CorruptDataError) as error:
            return self._failed(followed, error)
        return LogChanged()

    async def rebuild(self, followed: FollowedPartition, action: RebuildFromTier) -> FollowerEvent | None:
        """Let a log begin anew behind what the remote tier has. None if that no longer counts."""
        partition = followed.partition
        try:
            start = await self._tier.start_after(partition, action.last_epoch, action.last_offset)
            async with self._turn(partition):
                if not self.counts(followed):
                    return None
                logger.info(
                    "%s-%d begins anew at %d: older records are in the remote tier",
                    partition.topic,
                    partition.index,
                    start.start_offset,
                )
                await self._tier.rebuild(partition, start, action.log_start_offset)
        except StorageError as error:
            return self._failed(followed, error)
        except (RemoteStorageError, RemoteWaitOverError, OperationError, CorruptDataError) as error:
            logger.warning("Cannot follow %s-%d from the remote tier: %s", partition.topic, partition.index, error)
            return FetchFailed()
        return LogChanged()

    async def cut(
        self, cuts: Sequence[tuple[FollowedPartition, CutFollowerLog]]
    ) -> list[tuple[FollowedPartition, FollowerEvent]]:
        """Cut logs where they part from those of their leader; return what came of those that still count.

        Recovery points are lowered on disk before, because a crash in the middle may leave a hole that recovery finds
        only there, and again before anything is appended, because a cut may end lower, at the start of a batch. Many
        logs share these writes.
        """
        async with AsyncExitStack() as turns:
            # All take turns in one order, so that two who want many never wait for each other.
            for followed, _ in sorted(cuts, key=lambda each: each[0].key):
                await turns.enter_async_context(self._turn(followed.partition))
            dirs = {followed.partition.log.log_dir for followed, _ in cuts}
            done = []
            for followed, action in cuts:
                if self.counts(followed):
                    followed.partition.log.truncation.announce(action.end_offset)
                    turns.callback(followed.partition.log.truncation.withdraw)
            await self._save_recovery_points(dirs)
            for followed, action in cuts:
                if self.counts(followed):
                    done.append((followed, self._cut(followed, action)))
                    # Each waits for the disk, and others want to get on between them.
                    await asyncio.sleep(0)
            await self._save_recovery_points(dirs)
        return done

    def _cut(self, followed: FollowedPartition, action: CutFollowerLog) -> FollowerEvent:
        partition = followed.partition
        log = partition.log
        if action.end_offset < log.high_watermark:
            logger.warning(
                "%s-%d is cut to %d, below its high watermark %d",
                partition.topic,
                partition.index,
                action.end_offset,
                log.high_watermark,
            )
        try:
            log.truncation.truncate_to(action.end_offset, now_ms=self._clock.now_ms())
        except (StorageError, CorruptDataError) as error:
            return self._failed(followed, error)
        return LogChanged()

    def _failed(self, followed: FollowedPartition, error: CrabkaError) -> FollowerEvent:
        if isinstance(error, StorageError):
            self._on_dir_failure(error.log_dir, error)
            return LogBroken()
        partition = followed.partition
        logger.error(
            "Cannot append what broker %d sent for %s-%d: %s",
            followed.leader_id,
            partition.topic,
            partition.index,
            error,
        )
        return LogRejected()
