"""Reads of what only the remote tier has: the part of tiered storage that handlers and followers use.

Everything runs on the loop but the calls to the store, which wait in a pool of their own. Reads use the index cache
and the chunk cache; a tier on this machine is read from its files. Kafka: RemoteLogManager.read.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.tiering.bootstrap.follower_bootstrap import follower_start
from crabka.broker.tiering.read.aborted import aborted_transactions
from crabka.broker.tiering.read.deadline import Deadline, RemoteWaitOverError
from crabka.broker.tiering.read.healing.segment_survey import DamagedSegmentError
from crabka.broker.tiering.read.healing.verified_read import read_verified
from crabka.broker.tiering.read.read_ahead import ReadAhead
from crabka.broker.tiering.read.remote_log import remote_log_of
from crabka.broker.tiering.read.remote_offsets import find_by_timestamp
from crabka.broker.tiering.read.segment_read import WantedBytes
from crabka.broker.tiering.stats import (
    BUILD_AUX_STATE_ERRORS,
    BUILD_AUX_STATE_REQUESTS,
    REMOTE_FETCH_BYTES,
    REMOTE_FETCH_ERRORS,
    REMOTE_FETCH_EXPIRES,
    REMOTE_FETCH_REQUESTS,
)
from crabka.log.partition.decompression import decompressed_limit
from crabka.protocol.hot import RecordParts
from crabka.remote.errors import RemoteStorageError

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable

    from crabka.broker.partition.partition import Partition
    from crabka.broker.tiering.bootstrap.follower_bootstrap import FollowerStart
    from crabka.broker.tiering.limits import ByteRateQuota
    from crabka.broker.tiering.read.remote_log import RemoteLog, RemotePlace
    from crabka.broker.tiering.read.segment_read import SegmentPart
    from crabka.broker.tiering.read.tools import ReadTools
    from crabka.log.partition.timestamps import TimestampOffset
    from crabka.ports import Payload
    from crabka.remote.segments import RemoteLogSegmentMetadata

logger = logging.getLogger(__name__)

_UPKEEP_INTERVAL_MS: Final = 60_000
# Only the follower waits for its state, and it retries.
_BOOTSTRAP_WAIT_MS: Final = 30_000


class UnknownOffsetError(RemoteStorageError):
    """An offset between log start and local log start is in no segment that is known here; to be tried again.

    The metadata of the tier may lag, or retention removed the segment and the new log start has not arrived.
    """

    retriable = True


class RemoteFetch(NamedTuple):
    """What a consumer wants of a partition from an offset on that only the tier has."""

    partition: Partition
    offset: int
    max_bytes: int
    upper_offset: int
    min_one_batch: bool
    is_committed_only: bool


class RemoteRecords(NamedTuple):
    """Batches from the tier; the aborted transactions among them if the consumer must know."""

    records: Payload | RecordParts
    aborted: list[tuple[int, int]] | None


class RemoteReads:
    """Reads from the tier for one node. Only for its loop."""

    def __init__(self, tools: ReadTools, *, fetch_quota: ByteRateQuota) -> None:
        self._tools = tools
        self._quota = fetch_quota
        self._ahead = ReadAhead(tools.chunks, self._expect)
        self._upkeep: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Take over the indexes that an earlier run has left on disk."""
        await self._tools.indexes.open()
        self._keep_up()

    def close(self) -> None:
        """Read nothing any more. A store that hangs is not waited for."""
        if self._upkeep is not None:
            self._upkeep.cancel()
        self._tools.close()

    @property
    def queue_size(self) -> int:
        """Return how many reads wait for a thread (RemoteLogReaderTaskQueueSize)."""
        return self._tools.pool.queue_size

    @property
    def idle_share(self) -> float:
        """Return the share of reader threads without work (RemoteLogReaderAvgIdlePercent)."""
        return self._tools.pool.idle_share

    @property
    def is_throttled(self) -> bool:
        """Return whether `remote.log.manager.fetch.max.bytes.per.second` is used up for now."""
        return self._quota.wait_ms(self._tools.clock.monotonic_ms()) > 0

    def forget(self, segment_ids: Iterable[uuid.UUID]) -> None:
        """Drop what is cached of segments that are deleted."""
        for segment_id in segment_ids:
            self._tools.forget(segment_id)

    # -- fetching ------------------------------------------------------------------------------------------------

    async def fetch(self, wanted: RemoteFetch, wait_ms: float) -> RemoteRecords:
        """Return batches from the one that holds the offset on, from one segment after the other.

        Returns nothing if the tier does not respond in time; what arrives later serves the next fetch. Raises
        RemoteStorageError.
        """
        stats, topic = self._tools.stats, wanted.partition.topic
        stats.count(REMOTE_FETCH_REQUESTS, topic)
        try:
            found = await self._fetch(wanted, Deadline(wait_ms))
        except RemoteWaitOverError:
            stats.count(REMOTE_FETCH_EXPIRES, topic)
            return RemoteRecords(b"", [] if wanted.is_committed_only else None)
        except RemoteStorageError as error:
            stats.count(REMOTE_FETCH_ERRORS, topic)
            # Each damaged place was reported when it was found.
            level = logging.DEBUG if isinstance(error, DamagedSegmentError) else logging.WARNING
            logger.log(level, "Cannot read %s-%d from the tier: %s", topic, wanted.partition.index, error)
            raise
        byte_count = len(found.records)
        stats.count(REMOTE_FETCH_BYTES, topic, byte_count)
        if self._tools.is_local:
            # Nothing is downloaded, so what is handed on counts.
            self._quota.record(byte_count, self._tools.clock.monotonic_ms())
        return found

    async def _fetch(self, wanted: RemoteFetch, deadline: Deadline) -> RemoteRecords:
        remote = remote_log_of(wanted.partition, self._tools.lookup)
        payloads, next_offset = await self._collect(remote, wanted, deadline)
        aborted: list[tuple[int, int]] | None = None
        if wanted.is_committed_only:
            aborted = []
            if payloads:
                aborted = await aborted_transactions(
                    remote,
                    wanted.partition.log,
                    (wanted.offset, next_offset),
                    lambda segment: self._tools.indexes.aborted(segment, deadline, remote.segment_before(segment)),
                )
        return RemoteRecords(payloads[0] if len(payloads) == 1 else RecordParts(payloads), aborted)

    async def _collect(self, remote: RemoteLog, wanted: RemoteFetch, deadline: Deadline) -> tuple[list[Payload], int]:
        """Return the batches and the offset after them."""
        payloads: list[Payload] = []
        offset, remaining = wanted.offset, wanted.max_bytes
        last: tuple[RemotePlace, SegmentPart] | None = None
        while True:
            limits = WantedBytes(offset, remaining, wanted.upper_offset, wanted.min_one_batch and not payloads)
            try:
                place = self._place(remote, offset)
                part = await self._read(place, limits, deadline, wanted.partition)
            except (RemoteWaitOverError, RemoteStorageError):
                if last is None:
                    raise
                break
            if part is not None:
                payloads += part.payloads
                remaining -= part.byte_count
                offset, last = part.next_offset, (place, part)
                if offset < place.end_offset and part.end_position < place.segment.segment_size_bytes:
                    break
            offset = place.end_offset
            is_local = offset >= wanted.partition.log.local_log_start_offset
            if remaining <= 0 or is_local or offset >= wanted.upper_offset:
                break
        if payloads and last is not None:
            self._look_ahead(remote, wanted.offset, *last)
        return payloads, offset

    @staticmethod
    def _place(remote: RemoteLog, offset: int) -> RemotePlace:
        place = remote.place_of(offset)
        if place is None:
            raise UnknownOffsetError(f"no remote segment is known to hold offset {offset}")
        return place

    async def _read(
        self, place: RemotePlace, wanted: WantedBytes, deadline: Deadline, partition: Partition
    ) -> SegmentPart | None:
        upper_offset = min(wanted.upper_offset, place.end_offset)
        return await read_verified(
            self._tools,
            place.segment,
            wanted._replace(upper_offset=upper_offset),
            deadline,
            max_decompressed_bytes=decompressed_limit(partition.log.config),
        )

    def _look_ahead(self, remote: RemoteLog, start_offset: int, place: RemotePlace, part: SegmentPart) -> None:
        if self._tools.is_local:
            return
        depth = self._ahead.note(remote, start_offset, part.next_offset)
        if depth and not self.is_throttled:
            self._ahead.begin(remote, place.segment, part.end_position, depth)

    def _expect(self, segment: RemoteLogSegmentMetadata) -> None:
        self._tools.preload(segment)

    # -- offsets -------------------------------------------------------------------------------------------------

    async def offset_for_timestamp(
        self, partition: Partition, timestamp: int, wait_ms: float
    ) -> TimestampOffset | None:
        """Return the first record in the tier, below the local log, whose timestamp is not below the given one.

        Raises RemoteStorageError, RemoteWaitOverError if that takes too long.
        """
        remote = remote_log_of(partition, self._tools.lookup)
        return await find_by_timestamp(self._tools, remote, partition.log, timestamp, Deadline(wait_ms))

    # -- followers -----------------------------------------------------------------------------------------------

    async def follower_start(self, partition: Partition, leader_epoch: int, offset: int) -> FollowerStart:
        """Return how a follower begins after the segment that holds an offset of an epoch.

        Raises RemoteStorageError, RemoteWaitOverError.
        """
        stats, topic = self._tools.stats, partition.topic
        stats.count(BUILD_AUX_STATE_REQUESTS, topic)
        try:
            remote = remote_log_of(partition, self._tools.lookup)
            return await follower_start(self._tools, remote, (leader_epoch, offset), Deadline(_BOOTSTRAP_WAIT_MS))
        except (RemoteStorageError, RemoteWaitOverError):
            stats.count(BUILD_AUX_STATE_ERRORS, topic)
            raise

    # -- upkeep --------------------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        self._tools.indexes.expire()
        loop = asyncio.get_running_loop()
        self._upkeep = loop.call_later(_UPKEEP_INTERVAL_MS / 1000, self._keep_up)
