"""Removes remote segments that retention no longer keeps, and uploads that were abandoned (RLMExpirationTask).

The log start moves first and is made durable, then segments are removed: so a reader learns that an offset is out of
range, never that it is missing. A new leader finds leftovers of its predecessor by the same rules. Before a removal the
leader catches up with the controller: a leader that was replaced, even by a replica with another history, stops.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.broker.tiering.copy.plan import lineage_of
from crabka.broker.tiering.expire.leftovers import DeletionWatch, LeftoverWatch
from crabka.broker.tiering.expire.retention_plan import LogExtent, RemovalReason, RetentionLimits, plan_retention
from crabka.broker.tiering.stats import (
    REMOTE_DELETE_LAG_BYTES,
    REMOTE_DELETE_LAG_SEGMENTS,
    REMOTE_LOG_METADATA_COUNT,
    REMOTE_LOG_SIZE_BYTES,
)
from crabka.remote.segments import RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from crabka.broker.tiering.copy.copier import SegmentCopier
    from crabka.broker.tiering.expire.deletion import SegmentRemover
    from crabka.broker.tiering.expire.retention_plan import Removal, RetentionPlan
    from crabka.broker.tiering.tools import TierTools
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition

logger = logging.getLogger(__name__)


class ExpiryTask:
    """Keeps the tier of one led partition tidy; one object for each time that the partition is led."""

    def __init__(
        self,
        tools: TierTools,
        copier: SegmentCopier,
        remover: SegmentRemover,
        *,
        partition: TopicIdPartition,
        source: PartitionLog,
        is_wanted: Callable[[], bool],
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        """`catch_up` returns when this broker knows all that the controller had committed at the call."""
        self._tools = tools
        self._copier = copier
        self._remover = remover
        self._partition = partition
        self._log = source
        self._is_wanted = is_wanted
        self._catch_up = catch_up
        # How many segments were reported that are no part of the log.
        self._reported_count = 0
        self._leftovers = LeftoverWatch()
        self._deletions = DeletionWatch()

    async def run_once(self) -> None:
        """Remove what has to go now. Raises RemoteStorageError, StorageError, OperationError."""
        metadata = self._tools.metadata
        metadata.require_ready(self._partition)
        listed = list(metadata.list_remote_log_segments(self._partition))
        plan = self._plan(listed)
        self._report_foreign(plan.foreign)
        abandoned = self._abandoned(listed)
        self._note_size(listed)
        if plan.removals or abandoned:
            await self._catch_up()
            if not self._is_wanted():
                return
            # Settings may have changed as well.
            plan = self._plan(list(metadata.list_remote_log_segments(self._partition)))
        if plan.log_start_offset is not None:
            await self._move_log_start(plan.log_start_offset)
        await self._remove(plan.removals)
        await self._remove_leftovers(abandoned)

    def _plan(self, listed: Sequence[RemoteLogSegmentMetadata]) -> RetentionPlan:
        source = self._log
        config = source.config
        limits = RetentionLimits(retention_ms=config.retention_ms, retention_bytes=config.retention_bytes)
        return plan_retention(
            lineage_of(source),
            listed,
            LogExtent(
                log_start_offset=source.log_start_offset,
                high_watermark=source.high_watermark,
                local=source.tiering.local_extents(),
            ),
            limits if config.delete else RetentionLimits(),
            now_ms=self._tools.runtime.clock.now_ms(),
            in_flight=self._copier.in_flight | self._remover.in_flight,
        )

    async def _move_log_start(self, offset: int) -> None:
        hit, source = self._tools.runtime.failpoints.hit, self._log
        hit("retention.before_log_start")
        if source.retention.raise_log_start(offset):
            await self._tools.save_log_starts([source.log_dir])
        hit("retention.after_log_start")

    async def _remove(self, removals: Sequence[Removal]) -> None:
        left_bytes = sum(removal.segment.segment_size_bytes for removal in removals)
        self._deletions.keep({segment.segment_id for segment, reason in removals if reason is RemovalReason.UNFINISHED})
        for index, (segment, reason) in enumerate(removals):
            self._note_delete_lag(len(removals) - index, left_bytes)
            if not self._is_wanted():
                return
            if reason is RemovalReason.UNFINISHED:
                await self._continue_deletion(segment)
            else:
                logger.info("%s is removed: %s", segment.segment_id, reason.value)
                await self._remover.remove(segment)
            left_bytes -= segment.segment_size_bytes
        self._note_delete_lag(0, 0)

    async def _continue_deletion(self, segment: RemoteLogSegmentMetadata) -> None:
        """Delete the data at once, and again when its uploader has certainly ended; that finishes the deletion."""
        now_ms, name = self._tools.runtime.clock.monotonic_ms(), segment.segment_id
        if not self._deletions.is_waiting(name):
            logger.info("%s is removed: %s", name, RemovalReason.UNFINISHED.value)
            await self._remover.delete_data(segment)
            self._deletions.note_deleted(name, now_ms)
        elif self._deletions.is_due(name, now_ms=now_ms, grace_ms=self._tools.config().crabka_remote_leftover_grace_ms):
            await self._remover.remove(segment)

    def _abandoned(self, listed: Sequence[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
        return self._leftovers.abandoned(
            listed,
            in_flight=self._copier.in_flight | self._remover.in_flight,
            now_ms=self._tools.runtime.clock.monotonic_ms(),
            grace_ms=self._tools.config().crabka_remote_leftover_grace_ms,
        )

    async def _remove_leftovers(self, abandoned: Sequence[RemoteLogSegmentMetadata]) -> None:
        for segment in abandoned:
            if not self._is_wanted():
                return
            if not self._is_begun(segment):
                continue
            logger.info("%s is removed: broker %d never finished its upload", segment.segment_id, segment.broker_id)
            await self._remover.begin(segment)
            self._deletions.note_deleted(segment.segment_id, self._tools.runtime.clock.monotonic_ms())

    def _is_begun(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether an upload is still unfinished: that may have changed while this task waited."""
        begun = RemoteLogSegmentState.COPY_SEGMENT_STARTED
        # Those of one epoch are few where there are many.
        epoch = segment.leader_epochs[-1][0]
        listed = self._tools.metadata.list_remote_log_segments(self._partition, epoch)
        return any(each.segment_id == segment.segment_id and each.state is begun for each in listed)

    def _report_foreign(self, foreign: Sequence[RemoteLogSegmentMetadata]) -> None:
        """Warn of segments that are no part of the log, again whenever there are more of them."""
        if len(foreign) > self._reported_count:
            source, name = self._log, self._partition.topic_partition
            logger.warning(
                "%s has %d segments in the tier, of offsets %d to %d, that are no part of its log from %d to %d: they "
                "are kept. `crabka recover` rebuilds logs from the tier, `crabka tier forget %s:%d` gives them up.",
                name,
                len(foreign),
                min(segment.start_offset for segment in foreign),
                max(segment.end_offset for segment in foreign),
                source.log_start_offset,
                source.log_end_offset,
                name.topic,
                name.partition,
            )
        self._reported_count = len(foreign)

    def _note_size(self, listed: Sequence[RemoteLogSegmentMetadata]) -> None:
        stats, name = self._tools.stats, self._partition.topic_partition
        stats.set_gauge(REMOTE_LOG_METADATA_COUNT, name, len(listed))
        stats.set_gauge(REMOTE_LOG_SIZE_BYTES, name, sum(segment.segment_size_bytes for segment in listed))

    def _note_delete_lag(self, segment_count: int, byte_count: int) -> None:
        stats, name = self._tools.stats, self._partition.topic_partition
        stats.set_gauge(REMOTE_DELETE_LAG_SEGMENTS, name, segment_count)
        stats.set_gauge(REMOTE_DELETE_LAG_BYTES, name, byte_count)
