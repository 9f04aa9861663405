"""Copies sealed segments of led partitions to the tier, in order (KIP-405, RLMCopyTask).

One copy: COPY_SEGMENT_STARTED is stored, the files are uploaded in a thread, COPY_SEGMENT_FINISHED is stored with the
custom metadata of the storage. A copy that fails in between is removed. A crash leaves a segment that is started and
not finished; it counts for nothing, so the next leader copies the offsets under another id and removes it later.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from crabka.broker.tiering.copy.plan import NOTHING_COPIED, copied_offset, lineage_of, plan_copy, remote_log_start
from crabka.broker.tiering.metadata.tier_metadata import PartitionLookup
from crabka.broker.tiering.stats import (
    REMOTE_COPY_BYTES,
    REMOTE_COPY_ERRORS,
    REMOTE_COPY_LAG_BYTES,
    REMOTE_COPY_LAG_SEGMENTS,
    REMOTE_COPY_REQUESTS,
)
from crabka.errors import CorruptDataError
from crabka.remote.errors import InvalidSegmentTransitionError, RemoteStorageError
from crabka.remote.segments import (
    LogSegmentData,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from crabka.broker.tiering.expire.deletion import SegmentRemover
    from crabka.broker.tiering.limits import ByteRateQuota, TierPool
    from crabka.broker.tiering.metadata.tier_metadata import TierMetadata
    from crabka.broker.tiering.tools import TierTools
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.log.partition.tierable import TierableSegment
    from crabka.remote.segments import CustomMetadata, TopicIdPartition

logger = logging.getLogger(__name__)


class CustomMetadataTooLargeError(RemoteStorageError):
    """The custom metadata exceeds `remote.log.metadata.custom.metadata.max.bytes`; no copy will succeed."""


class SegmentGoneError(RemoteStorageError):
    """The local segment was deleted before it could be copied."""

    retriable = True


class SegmentDamagedError(RemoteStorageError):
    """A batch of the local segment is damaged, so the segment is not copied."""

    retriable = True


def note_copied_offset(
    metadata: TierMetadata,
    partition: TopicIdPartition,
    source: PartitionLog,
    *,
    verified_offset: int = -1,
    without: Container[RemoteLogSegmentId] = (),
) -> int:
    """Note in the log up to where the tier holds all that is local, and return that. Raises NotReadyError.

    The caller has verified that up to `verified_offset`. Segments that this broker removes, `without`, do not count.
    While the whole tier of the partition is being removed, nothing counts.
    """
    if metadata.active_notices(partition):
        source.tiering.note_remote_offset(NOTHING_COPIED)
        return NOTHING_COPIED
    from_offset = max(source.local_log_start_offset, verified_offset + 1)
    copied = copied_offset(lineage_of(source), PartitionLookup(metadata, partition, without), from_offset)
    source.tiering.note_remote_offset(copied)
    return copied


class SegmentCopier:
    """Copies segments of all partitions, as many at once as the pool allows."""

    def __init__(self, tools: TierTools, pool: TierPool, remover: SegmentRemover, quota: ByteRateQuota) -> None:
        self._tools = tools
        self._pool = pool
        self._remover = remover
        self._quota = quota
        # What this run of the broker is copying; it is not a leftover.
        self.in_flight: set[RemoteLogSegmentId] = set()

    @property
    def being_removed(self) -> Container[RemoteLogSegmentId]:
        """The segments that this broker is removing from the tier."""
        return self._remover.in_flight

    async def wait_for_quota(self, byte_count: int) -> None:
        """Wait until so many bytes may go to the tier, and count them."""
        clock = self._tools.runtime.clock
        while (wait_ms := self._quota.wait_ms(clock.monotonic_ms())) > 0:  # noqa: ASYNC110 - only time helps
            await asyncio.sleep(wait_ms / 1000)
        self._quota.record(byte_count, clock.monotonic_ms())

    async def copy(self, partition: TopicIdPartition, source: PartitionLog, segment: TierableSegment) -> None:
        """Copy one segment. Raises RemoteStorageError; nothing of it counts then."""
        tools = self._tools
        segment_id = RemoteLogSegmentId(partition, tools.runtime.new_uuid())
        hit = tools.runtime.failpoints.hit
        async with self._pool.turn():
            if not await self._prepare(source, segment):
                raise SegmentGoneError(f"{segment.log_path} is gone")
            metadata = self._started(segment_id, source, segment)
            self.in_flight.add(segment_id)
            try:
                hit("copy.before_started")
                await tools.metadata.add_segment(metadata)
                hit("copy.after_started")
                custom = await self._upload(metadata, source, segment)
                hit("copy.after_upload")
                await self._require_uncut(metadata, source, segment, custom)
                await self._finish(metadata, custom)
                hit("copy.after_finished")
            finally:
                self.in_flight.discard(segment_id)
        tools.stats.count(REMOTE_COPY_BYTES, partition.topic, segment.size_bytes)

    async def _prepare(self, source: PartitionLog, segment: TierableSegment) -> bool:
        try:
            return await self._pool.submit(source.tiering.prepare_for_copy, segment)
        except CorruptDataError as error:
            source.healing.report_damage_at(segment.base_offset, str(error))
            raise SegmentDamagedError(f"{error}; it is copied when it is repaired") from error

    def _started(
        self, segment_id: RemoteLogSegmentId, source: PartitionLog, segment: TierableSegment
    ) -> RemoteLogSegmentMetadata:
        epochs = source.leader_epochs.lineage.between(segment.base_offset, segment.end_offset)
        if not epochs:
            raise SegmentGoneError(f"{segment.log_path} has no leader epoch any more")
        return RemoteLogSegmentMetadata(
            segment_id=segment_id,
            start_offset=segment.base_offset,
            end_offset=segment.end_offset,
            max_timestamp_ms=segment.max_timestamp_ms,
            broker_id=self._tools.broker_id,
            event_timestamp_ms=self._tools.runtime.clock.now_ms(),
            segment_size_bytes=segment.size_bytes,
            leader_epochs=epochs,
            txn_index_empty=segment.txn_index_path is None,
        )

    async def _upload(
        self, metadata: RemoteLogSegmentMetadata, source: PartitionLog, segment: TierableSegment
    ) -> CustomMetadata | None:
        data = LogSegmentData(
            log_segment=segment.log_path,
            offset_index=segment.offset_index_path,
            time_index=segment.time_index_path,
            producer_snapshot_index=segment.producer_snapshot_path,
            transaction_index=segment.txn_index_path,
            leader_epoch_index=source.leader_epochs.encode(segment.end_offset + 1),
        )
        self._tools.stats.count(REMOTE_COPY_REQUESTS, metadata.topic_id_partition.topic)
        try:
            return await self._pool.submit(self._tools.storage.copy_log_segment_data, metadata, data)
        except Exception as error:
            logger.warning("%s cannot be copied and is removed: %s", metadata.segment_id, error)
            await self._clean_up(metadata)
            raise

    async def _require_uncut(
        self,
        metadata: RemoteLogSegmentMetadata,
        source: PartitionLog,
        segment: TierableSegment,
        custom: CustomMetadata | None,
    ) -> None:
        """Remove an upload whose file was truncated since: a deposed leader follows, and then has other records.

        Raises SegmentGoneError.
        """
        epochs = source.leader_epochs.lineage.between(segment.end_offset, segment.end_offset)
        is_same = [epoch for epoch, _ in epochs] == [metadata.leader_epochs[-1][0]]
        if not is_same or not source.tiering.has_segment(segment):
            await self._clean_up(metadata, custom)
            raise SegmentGoneError(f"{segment.log_path} was cut while it was copied")

    async def _finish(self, metadata: RemoteLogSegmentMetadata, custom: CustomMetadata | None) -> None:
        tools = self._tools
        update = RemoteLogSegmentMetadataUpdate(
            segment_id=metadata.segment_id,
            event_timestamp_ms=tools.runtime.clock.now_ms(),
            state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
            broker_id=tools.broker_id,
            custom_metadata=custom,
        )
        limit = tools.config().remote_log_metadata_custom_metadata_max_bytes
        if custom is not None and len(custom.value) > limit:
            # The deletion passes custom metadata to the storage, and does not publish it.
            await self._clean_up(metadata, custom)
            raise CustomMetadataTooLargeError(
                f"The custom metadata of {metadata.segment_id} has {len(custom.value)} bytes, {limit} are allowed"
            )
        try:
            await tools.metadata.update_segment(update)
        except InvalidSegmentTransitionError:
            # Another leader removed it as a leftover before the upload ended.
            await self._remover.delete_data(metadata)
            raise

    async def _clean_up(self, metadata: RemoteLogSegmentMetadata, custom: CustomMetadata | None = None) -> None:
        try:
            await self._remover.remove(metadata, custom)
        except Exception as error:  # noqa: BLE001 - why the copy failed matters more; leftovers are removed later
            logger.warning("%s cannot be removed now, it is removed later: %s", metadata.segment_id, error)


class CopyTask:
    """Copies what one led partition has for the tier; one object for each time that the partition is led."""

    def __init__(
        self,
        tools: TierTools,
        copier: SegmentCopier,
        partition: TopicIdPartition,
        source: PartitionLog,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._tools = tools
        self._copier = copier
        self._partition = partition
        self._log = source
        self._is_wanted = is_wanted
        self._starts_over = True
        # Up to here the tier holds all that the local log has: only this leader removes any of it.
        self._verified_offset = NOTHING_COPIED

    def start_over(self) -> None:
        """Verify again what was seen in the tier before: others may have removed it since."""
        self._starts_over = True

    async def run_once(self) -> None:
        """Copy all that may be copied now. Raises RemoteStorageError, StorageError."""
        source, metadata = self._log, self._tools.metadata
        metadata.require_ready(self._partition)
        if self._starts_over:
            self._verified_offset = NOTHING_COPIED
        if self._starts_over or not self._has_log_start():
            self._starts_over = False
            try:
                await self._take_over_log_start()
            except BaseException:
                self._starts_over = True
                raise
        copied = note_copied_offset(
            metadata,
            self._partition,
            source,
            verified_offset=self._verified_offset,
            # An upload that was given up may be finished before its removal is noted.
            without=self._copier.being_removed,
        )
        self._verified_offset = max(copied, self._verified_offset)
        self._note_lag()
        if not source.retention.copies_to_tier:
            return
        for segment in await self._plan(copied):
            await self._copier.wait_for_quota(segment.size_bytes)
            if self._starts_over or not self._is_wanted():
                return
            try:
                await self._copier.copy(self._partition, source, segment)
            except Exception:
                self._tools.stats.count(REMOTE_COPY_ERRORS, self._partition.topic)
                raise
            if not self._is_wanted() or self._starts_over:
                # The metadata may have lost what was copied before this segment, or all of it is being removed.
                return
            self._verified_offset = segment.end_offset
            source.tiering.note_remote_offset(segment.end_offset)
            self._note_lag()

    async def _plan(self, copied: int) -> list[TierableSegment]:
        """Return what to copy, durable on the local disk."""
        source = self._log
        start, stable = source.log_start_offset, source.last_stable_offset
        found = source.tiering.tierable_segments(max(copied + 1, start), stable)
        if not all(segment.is_flushed for segment in found):
            await self._tools.flush_logs()
            found = source.tiering.tierable_segments(max(copied + 1, start), stable)
        return plan_copy(found, copied_offset=copied, log_start_offset=start, stable_offset=stable)

    def _has_log_start(self) -> bool:
        """Return whether the first offset of the log exists; a former leader may have removed it."""
        source = self._log
        start = source.log_start_offset
        if start >= source.local_log_start_offset:
            return True
        epoch = lineage_of(source).epoch_at(start)
        metadata = self._tools.metadata
        return epoch is None or metadata.remote_log_segment_metadata(self._partition, epoch, start) is not None

    async def _take_over_log_start(self) -> None:
        """Begin where the tier begins: a former leader may have deleted more than this broker knows."""
        source = self._log
        finished = [
            segment
            for segment in self._tools.metadata.list_remote_log_segments(self._partition)
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        ]
        start = remote_log_start(lineage_of(source), finished, local_start=source.local_log_start_offset)
        if source.retention.raise_log_start(min(start, source.high_watermark)):
            await self._tools.save_log_starts([source.log_dir])

    def _note_lag(self) -> None:
        stats, name, left = self._tools.stats, self._partition.topic_partition, self._log.tiering.untiered()
        stats.set_gauge(REMOTE_COPY_LAG_BYTES, name, left.sealed_bytes)
        stats.set_gauge(REMOTE_COPY_LAG_SEGMENTS, name, left.sealed_count)
