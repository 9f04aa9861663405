"""Retention over all logs of a node, in turns of the loop, in an order that a crash may interrupt anywhere.

Log starts are checkpointed before segments are deleted, and segments that only the remote tier keeps go one by one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from crabka.errors import StorageError
from crabka.runtime.turns import in_turns

if TYPE_CHECKING:
    from crabka.ids import TopicPartition
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import Threads

SaveLogStarts = Callable[[Iterable[str]], Awaitable[None]]


class RetentionRuns:
    """Applies retention and `segment.ms`. A dir that fails meanwhile is reported."""

    def __init__(
        self,
        threads: Threads,
        logs: Mapping[TopicPartition, PartitionLog],
        *,
        save_log_starts: SaveLogStarts,
        on_dir_failure: Callable[[str, Exception], None],
        producer_id_expiration_ms: int,
    ) -> None:
        self._threads = threads
        self._logs = logs
        self._save_log_starts = save_log_starts
        self._on_dir_failure = on_dir_failure
        self._expiration_ms = producer_id_expiration_ms

    async def run(self, now_ms: int) -> int:
        """Apply retention to all logs and forget silent producers; return how many segments were dropped."""
        moved = set()
        leaving = []
        async for log in self._open_in_turns():
            try:
                # The log start of a follower follows its leader's, and is not checkpointed then.
                if log.retention.expire(now_ms) or log.retention.has_segments_below_start():
                    moved.add(log.log_dir)
                if log.retention.may_drop_tiered(now_ms):
                    leaving.append(log)
                    moved.add(log.log_dir)
            except StorageError as error:
                self._on_dir_failure(error.log_dir, error)
            log.producer_state.remove_expired(now_ms, self._expiration_ms)
        await self._save_log_starts(moved)
        count = 0
        async for log in self._open_in_turns():
            try:
                count += len(log.retention.delete_below_log_start(now_ms))
            except StorageError as error:
                self._on_dir_failure(error.log_dir, error)
        for log in leaving:
            count += await self._drop_tiered(log, now_ms)
        async for log in self._open_in_turns():
            try:
                log.retention.roll_if_past_local_retention(now_ms)
            except StorageError as error:
                self._on_dir_failure(error.log_dir, error)
        return count

    async def roll_due(self, now_ms: int) -> None:
        """Start new segments in the logs whose active one is open for `segment.ms`."""
        async for log in self._open_in_turns():
            try:
                log.roll_if_needed(now_ms)
            except StorageError as error:
                self._on_dir_failure(error.log_dir, error)

    async def _open_in_turns(self) -> AsyncIterator[PartitionLog]:
        """Yield the logs that are open now, in turns of the loop; not those that are deleted meanwhile."""
        async for log in in_turns(list(self._logs.values())):
            if self._logs.get(log.topic_partition) is log:
                yield log

    async def _drop_tiered(self, log: PartitionLog, now_ms: int) -> int:
        """Drop segments that the remote tier has, one by one, so that a crash leaves no hole between them."""
        count = 0
        try:
            while self._logs.get(log.topic_partition) is log and log.retention.drop_oldest_tiered(now_ms) is not None:
                count += 1
                await self._threads.submit(log.retention.sync_names)
        except StorageError as error:
            self._on_dir_failure(error.log_dir, error)
        return count
