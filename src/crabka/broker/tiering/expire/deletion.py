"""Removes segments from the tier: one, or all of a partition whose topic is deleted or not tiered any more.

A segment goes in three steps, each of which may be the last one before a crash: DELETE_SEGMENT_STARTED is stored, so
that nobody reads it any more and whoever comes next goes on; the data is deleted; DELETE_SEGMENT_FINISHED is stored.
All of them may be repeated, also by several brokers at once.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from crabka.broker.tiering.stats import REMOTE_DELETE_ERRORS, REMOTE_DELETE_REQUESTS
from crabka.remote.errors import InvalidPartitionDeleteTransitionError, InvalidSegmentTransitionError, NotReadyError
from crabka.remote.segments import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.tiering.limits import TierPool
    from crabka.broker.tiering.tools import TierTools
    from crabka.remote.segments import CustomMetadata, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition

logger = logging.getLogger(__name__)


class SegmentRemover:
    """Removes segments of all partitions, as many at once as the pool allows."""

    def __init__(self, tools: TierTools, pool: TierPool) -> None:
        self._tools = tools
        self._pool = pool
        # What is being removed, so that nobody begins it a second time.
        self.in_flight: set[RemoteLogSegmentId] = set()
        # Hears of every segment whose data is gone.
        self.on_removed: Callable[[RemoteLogSegmentId], None] = lambda _segment_id: None

    async def remove(self, segment: RemoteLogSegmentMetadata, custom: CustomMetadata | None = None) -> None:
        """Take all steps that are left. Raises RemoteStorageError; it may be called again then.

        `custom` is told to the storage, but not stored.
        """
        if segment.segment_id in self.in_flight:
            return
        hit = self._tools.runtime.failpoints.hit
        self.in_flight.add(segment.segment_id)
        try:
            if segment.state is not RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
                hit("delete.before_started")
                await self._note(segment, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
            hit("delete.after_started")
            await self.delete_data(segment if custom is None else replace(segment, custom_metadata=custom))
            hit("delete.after_data")
            await self._note(segment, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
            hit("delete.after_finished")
        finally:
            self.in_flight.discard(segment.segment_id)

    async def begin(self, segment: RemoteLogSegmentMetadata) -> None:
        """Take all steps but the last: the data is gone, and the deletion to be finished by `remove` later."""
        if segment.segment_id in self.in_flight:
            return
        self.in_flight.add(segment.segment_id)
        try:
            await self._note(segment, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
            await self.delete_data(segment)
        finally:
            self.in_flight.discard(segment.segment_id)

    async def delete_data(self, segment: RemoteLogSegmentMetadata) -> None:
        """Delete the data of a segment and nothing else. Raises RemoteStorageError."""
        stats, topic = self._tools.stats, segment.topic_id_partition.topic
        stats.count(REMOTE_DELETE_REQUESTS, topic)
        try:
            async with self._pool.turn():
                await self._pool.submit(self._tools.storage.delete_log_segment_data, segment)
        except Exception:
            stats.count(REMOTE_DELETE_ERRORS, topic)
            raise
        self.on_removed(segment.segment_id)

    async def _note(self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        tools = self._tools
        update = RemoteLogSegmentMetadataUpdate(
            segment_id=segment.segment_id,
            event_timestamp_ms=tools.runtime.clock.now_ms(),
            state=state,
            broker_id=tools.broker_id,
            custom_metadata=segment.custom_metadata,
        )
        try:
            await tools.metadata.update_segment(update)
        except InvalidSegmentTransitionError as error:
            # Somebody else is as far, or further: what is not known is deleted already, or was never stored.
            if error.source is not None and error.source < state:
                raise


class PartitionRemover:
    """Removes all that the tier has of a partition."""

    def __init__(self, tools: TierTools, segments: SegmentRemover) -> None:
        self._tools = tools
        self._segments = segments

    async def delete(self, partition: TopicIdPartition) -> None:
        """Remove a partition whose topic is deleted. Raises RemoteStorageError, NotReadyError; to be called again then.

        The mark comes first: from then on no segment can be added, and whoever owns the partition of the metadata topic
        will finish what this broker begins.
        """
        hit = self._tools.runtime.failpoints.hit
        hit("delete_partition.before_marked")
        await self._note(partition, RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
        hit("delete_partition.after_marked")
        await self._note(partition, RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
        hit("delete_partition.after_started")
        await self.purge(partition)
        if any(True for _ in self._tools.metadata.list_remote_log_segments(partition)):
            # Another task of this broker removes them. Once the deletion is finished, nothing is known of them.
            raise NotReadyError(f"not all that the tier has of {partition} is removed yet")
        hit("delete_partition.before_finished")
        await self._note(partition, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)
        logger.info("The tier has nothing of %s any more", partition)

    async def purge(self, partition: TopicIdPartition) -> None:
        """Remove all segments, whatever their state, but leave the partition as one that may get others."""
        for segment in list(self._tools.metadata.list_remote_log_segments(partition)):
            await self._segments.remove(segment)

    async def _note(self, partition: TopicIdPartition, state: RemotePartitionDeleteState) -> None:
        tools = self._tools
        step = RemotePartitionDeleteMetadata(
            topic_id_partition=partition,
            state=state,
            event_timestamp_ms=tools.runtime.clock.now_ms(),
            broker_id=tools.broker_id,
        )
        try:
            await tools.metadata.put_partition_delete(step)
        except InvalidPartitionDeleteTransitionError as error:
            # Somebody else is as far, or further.
            if error.source is None or error.source < state:
                raise
