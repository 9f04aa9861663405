"""Empties the tier of a partition whose topic is not tiered any more (KIP-950), safe against a topic that is so again.

What goes must not count for anybody: neither for local retention, on leaders and followers, nor for where the log
starts, nor as copied. A removal notice says so to all brokers before the first segment goes; see `removal_notice`.

1. the notice is announced
2. this broker catches up with the controller; if the topic is tiered by now the notice is withdrawn, and nothing goes
3. the notice is committed: from here on any broker may go on, and the next leader will
4. all segments are removed, then the notice

A leader that tiers the partition and finds a notice withdraws it. Only if it was committed before that, the leader
ends the removal and begins with an empty tier.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.remote.errors import InvalidSegmentTransitionError, NotReadyError
from crabka.remote.removal_notice import (
    COMMITTED,
    is_active_notice,
    is_committed_notice,
    is_removal_notice,
    new_removal_notice,
)
from crabka.remote.segments import RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabka.broker.tiering.expire.deletion import SegmentRemover
    from crabka.broker.tiering.tools import TierTools
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition

logger = logging.getLogger(__name__)


class TierPurge:
    """Empties partitions, and ends what others began."""

    def __init__(self, tools: TierTools, remover: SegmentRemover, catch_up: Callable[[], Awaitable[None]]) -> None:
        """`catch_up` returns when this broker knows all that the controller had committed at the call."""
        self._tools = tools
        self._remover = remover
        self._catch_up = catch_up

    async def purge(self, partition: TopicIdPartition, source: PartitionLog, is_wanted: Callable[[], bool]) -> None:
        """Remove all segments of a partition that this broker leads; none if the topic is tiered again.

        `is_wanted` returns whether this broker still wants that. Raises RemoteStorageError, OperationError;
        to be called again then.
        """
        metadata = self._tools.metadata
        await metadata.catch_up(partition)
        listed = list(metadata.list_remote_log_segments(partition))
        if not listed:
            return
        if any(map(is_committed_notice, listed)) or await self._announce(partition, listed, is_wanted):
            await self._finish(partition, source)

    async def settle(self, partition: TopicIdPartition, source: PartitionLog) -> None:
        """Let a partition be tiered again: withdraw notices, or end the removal if it is too late for that.

        To be called again after an error, as `purge`.
        """
        withdrawn = [await self._withdraw(each) for each in self._tools.metadata.active_notices(partition)]
        if not all(withdrawn):
            await self._finish(partition, source)

    async def _announce(
        self, partition: TopicIdPartition, listed: list[RemoteLogSegmentMetadata], is_wanted: Callable[[], bool]
    ) -> bool:
        """Announce that all segments go, and commit that; return False if they stay."""
        tools = self._tools
        hit = tools.runtime.failpoints.hit
        own = (each for each in listed if is_active_notice(each) and each.broker_id == tools.broker_id)
        notice = next(own, None)
        if notice is None:
            notice = new_removal_notice(
                partition,
                tools.runtime.new_uuid(),
                broker_id=tools.broker_id,
                now_ms=tools.runtime.clock.now_ms(),
            )
            await tools.metadata.add_segment(notice)
        hit("purge.after_announced")
        await self._catch_up()
        if not is_wanted():
            logger.info("What the tier has of %s stays: the topic is tiered again", partition)
            return not await self._withdraw(notice)
        try:
            await self._note(notice, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        except InvalidSegmentTransitionError as error:
            raise NotReadyError(f"another broker withdrew the removal of what the tier has of {partition}") from error
        hit("purge.after_committed")
        return True

    async def _finish(self, partition: TopicIdPartition, source: PartitionLog) -> None:
        """Remove all segments, then the notices. The log begins where its local part does."""
        listed = self._being_removed(partition)
        if listed and source.retention.raise_log_start(source.local_log_start_offset):
            await self._tools.save_log_starts([source.log_dir])
        # Checked again after every wait: another broker may have finished the removal, and new copies may exist.
        for segment in self._being_removed(partition):
            if not is_removal_notice(segment):
                await self._remover.remove(segment)
        listed = self._being_removed(partition)
        if not all(map(is_removal_notice, listed)):
            raise NotReadyError(f"not all that the tier has of {partition} is removed yet")
        self._tools.runtime.failpoints.hit("purge.before_finished")
        for notice in listed:
            await self._note(notice, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
            await self._note(notice, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
        logger.info("The tier has nothing of %s any more", partition)

    async def _withdraw(self, notice: RemoteLogSegmentMetadata) -> bool:
        """Take a notice back; return False if it was committed before, and stands."""
        await self._note(notice, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        standing = self._tools.metadata.active_notices(notice.topic_id_partition)
        if any(each.segment_id == notice.segment_id for each in standing):
            return False
        await self._note(notice, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
        return True

    def _being_removed(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """Return all segments while a committed notice stands: none of them may be used, then or later."""
        listed = list(self._tools.metadata.list_remote_log_segments(partition))
        return listed if any(map(is_committed_notice, listed)) else []

    async def _note(self, notice: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        """Take a step with a notice, unless another broker withdrew or finished it."""
        tools = self._tools
        is_commit = state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        update = RemoteLogSegmentMetadataUpdate(
            segment_id=notice.segment_id,
            event_timestamp_ms=tools.runtime.clock.now_ms(),
            state=state,
            broker_id=tools.broker_id,
            custom_metadata=COMMITTED if is_commit else None,
        )
        try:
            await tools.metadata.update_segment(update)
        except InvalidSegmentTransitionError as error:
            if is_commit or (error.source is not None and error.source < state):
                raise
