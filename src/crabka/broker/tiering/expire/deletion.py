"""Removes segments from the tier: one, or all of a partition whose topic is deleted or not tiered any more.

A segment is removed in three steps, each of which may be the last one before a crash: DELETE_SEGMENT_STARTED is stored,
so that no reader uses it and a later leader continues; the data is deleted; DELETE_SEGMENT_FINISHED is stored. All
steps may be repeated, also by several brokers at once.
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
        # What is being removed: it must not be started twice.
        self.in_flight: set[RemoteLogSegmentId] = set()
        # Called with every segment whose data is deleted.
        self.on_removed: Callable[[RemoteLogSegmentId], None] = lambda _segment_id: None

    async def remove(self, segment: RemoteLogSegmentMetadata, custom: CustomMetadata | None = None) -> None:
        """Take all steps that are left. Raises RemoteStorageError; it may be called again then.

        `custom` is passed to the storage, but not stored.
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
        """Take all steps but the last: the data is deleted, and `remove` finishes the deletion later."""
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
            # Another broker is as far, or further: an unknown segment is deleted already, or was never stored.
            if error.source is not None and error.source < state:
                raise


class PartitionRemover:
    """Removes all that the tier has of a partition."""

    def __init__(self, tools: TierTools, segments: SegmentRemover) -> None:
        self._tools = tools
        self._segments = segments

    async def delete(self, partition: TopicIdPartition) -> None:
        """Remove a partition whose topic is deleted. Raises RemoteStorageError, NotReadyError; to be called again then.

        The mark comes first: from then on no segment can be added, and the owner of the metadata partition finishes
        what this broker begins.
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
        """Remove all segments in any state; the partition may get new ones afterwards."""
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
            # Another broker is as far, or further.
            if error.source is None or error.source < state:
                raise
