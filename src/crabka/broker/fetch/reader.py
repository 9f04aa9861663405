"""Reads what a fetch asks for: plans slices, takes what is in memory at once and the rest in a thread.

The loop never waits for a disk: a slice whose bytes are not in the page cache is read by the pool, and the
response is packed when it came. Consumers read up to the high watermark, from followers as well; followers read from
the leader, up to the log end, which reports how far they are.

What only the remote tier has is planned here and read by `tiering`; a follower gets an error that says so, and needs it
no more (KIP-405).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.replication.follower_progress import FollowerFetch
from crabka.broker.tiering.read.reader import RemoteFetch
from crabka.errors import CorruptDataError, OffsetInRemoteTierError, OperationError, StorageError
from crabka.ids import ZERO_UUID
from crabka.log.partition.reader import empty_slice
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import NO_AFFINITY, FetchPartitionResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.fetch.sessions import FetchClient, SessionTarget
    from crabka.broker.partition.partition import Partition
    from crabka.log.partition.reader import ReadSlice

logger = logging.getLogger(__name__)

UNKNOWN = -1


class TargetRead(NamedTuple):
    """What came of one target: a finished row, or one that still waits for the bytes of `cold` or `remote`."""

    target: SessionTarget
    partition: Partition | None
    row: FetchPartitionResult
    cold: ReadSlice | None
    remote: RemoteFetch | None = None


class FetchRead(NamedTuple):
    """What came of a whole request. Planned bytes count for min_bytes, whether they are read yet or not."""

    reads: list[TargetRead]
    planned_bytes: int
    # An error, a place to truncate to or a replica to go to: the client must get it now.
    is_urgent: bool
    # Some of it must come from the remote tier; how many bytes that will be is not known.
    has_remote: bool = False

    @property
    def cold_slices(self) -> list[ReadSlice]:
        """Return the slices that need the disk."""
        return [read.cold for read in self.reads if read.cold is not None]


def read_targets(
    context: BrokerContext,
    targets: Sequence[SessionTarget],
    client: FetchClient,
    *,
    max_bytes: int,
    is_first_look: bool = True,
) -> FetchRead:
    """Plan and read all targets in order until `max_bytes` are planned; the first batch may be larger.

    The first look at a follower's fetch takes note of the follower's progress, a second one does not.
    """
    reads: list[TargetRead] = []
    # For what comes from the tier room is kept, but half of it at most: a slow tier must not hold up what is here.
    planned_bytes = reserved_bytes = 0
    is_urgent = has_remote = False
    for target in targets:
        # Progress is possible even with a batch larger than every limit (KIP-74), but only for the first data.
        budget = max_bytes - planned_bytes - reserved_bytes
        one_batch = planned_bytes == 0 < max_bytes
        try:
            if client.replica_id < 0:
                read, length = _read_for_consumer(context, target, client, budget=budget, one_batch=one_batch)
            else:
                read, length = _read_for_follower(
                    context, target, client, budget=budget, one_batch=one_batch, is_first_look=is_first_look
                )
        except OffsetInRemoteTierError:
            read, length = _read_remote(context, target, client, budget=max_bytes - planned_bytes), 0
            if read.remote is not None:
                has_remote = True
                reserved_bytes = min(reserved_bytes + read.remote.max_bytes, max_bytes // 2)
        except OperationError as error:
            read, length = refused_read(target, error.error_code), 0
        except CorruptDataError:
            # An error of this partition alone: the connection and its other partitions go on.
            logger.exception("cannot read partition %d of %s", target.index, target.topic or target.topic_id)
            read, length = refused_read(target, ErrorCode.kafka_storage_error), 0
        except StorageError as error:
            context.logs.on_dir_failure(error.log_dir, error)
            read, length = refused_read(target, ErrorCode.kafka_storage_error), 0
        row = read.row
        is_urgent = is_urgent or (
            row.error_code != 0 or row.diverging_epoch is not None or row.preferred_read_replica != NO_AFFINITY
        )
        reads.append(read)
        planned_bytes += length
    return FetchRead(reads, planned_bytes, is_urgent, has_remote=has_remote)


def with_cold_bytes(
    context: BrokerContext, reads: Sequence[TargetRead], chunks: Sequence[bytes | OSError]
) -> list[TargetRead]:
    """Return the reads with the bytes of their cold slices filled in, in order; a failed disk goes offline."""
    remaining = iter(chunks)
    return [read if read.cold is None else _with_chunk(context, read, next(remaining)) for read in reads]


def _lost(partition: Partition, piece: ReadSlice) -> OperationError:
    """Have a segment checked in which no batch is where one must be; return what the client gets meanwhile."""
    log, offset = partition.log, piece.start_offset
    reason = f"there is no batch at offset {offset}"
    log.healing.report_damage_at(offset, reason)
    return OperationError(ErrorCode.kafka_storage_error, reason)


def _with_chunk(context: BrokerContext, read: TargetRead, chunk: bytes | OSError) -> TargetRead:
    if not isinstance(chunk, OSError):
        if read.cold is not None and read.cold.is_lost and read.partition is not None:
            return refused_read(read.target, _lost(read.partition, read.cold).error_code)
        return read._replace(row=read.row._replace(records=chunk), cold=None)
    if read.partition is not None:
        context.logs.on_dir_failure(read.partition.log.log_dir, chunk)
    return refused_read(read.target, ErrorCode.kafka_storage_error)


def read_slices(slices: Sequence[ReadSlice]) -> list[bytes | OSError]:
    """Read slices from disk, each for itself; runs in a thread."""
    return [_read_slice(each) for each in slices]


def _read_slice(piece: ReadSlice) -> bytes | OSError:
    try:
        return piece.read()
    except OSError as error:
        return error


def _read_for_consumer(
    context: BrokerContext, target: SessionTarget, client: FetchClient, *, budget: int, one_batch: bool
) -> tuple[TargetRead, int]:
    partition = _find(context, target)
    if client.reads_followers and not partition.is_leader:
        partition.require_epoch(target.leader_epoch)
    else:
        partition.require_leader(target.leader_epoch)
    log = partition.log
    if client.rack and (replica := partition.followers.closest(client.rack, target.fetch_offset)) is not None:
        # It reads there, so nothing is read here.
        row = FetchPartitionResult(
            target.index,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            preferred_read_replica=replica,
        )
        return TargetRead(target, partition, row, None), 0
    if target.last_fetched_epoch >= 0:
        diverging = _divergence(partition, target)
        if diverging is not None:
            return TargetRead(target, partition, diverging, None), 0
    upper = log.state.last_stable_offset if client.is_committed_only else log.state.high_watermark
    piece = log.read(
        target.fetch_offset,
        max_bytes=max(0, min(target.max_bytes, budget)),
        upper_offset=upper,
        min_one_batch=one_batch,
    )
    aborted: Sequence[tuple[int, int]] | None = None
    if client.is_committed_only:
        aborted = (
            [each[:2] for each in log.reads.aborted_transactions(target.fetch_offset, upper)] if piece.length else ()
        )
    return _take(target, partition, piece, aborted)


def _read_for_follower(
    context: BrokerContext,
    target: SessionTarget,
    client: FetchClient,
    *,
    budget: int,
    one_batch: bool,
    is_first_look: bool,
) -> tuple[TargetRead, int]:
    partition = _find(context, target)
    fetch = FollowerFetch(target.fetch_offset, target.log_start_offset, client.broker_epoch)
    log, followers = partition.log, partition.followers
    if target.leader_epoch == partition.leader_epoch and followers.is_still_caught_up(client.replica_id, fetch):
        offsets = log.state
        row = FetchPartitionResult(
            target.index, 0, offsets.high_watermark, offsets.last_stable_offset, offsets.log_start_offset
        )
        return TargetRead(target, partition, row, None), 0
    partition.require_leader(target.leader_epoch)
    followers.require(client.replica_id, target.leader_epoch)
    if target.last_fetched_epoch >= 0:
        diverging = _divergence(partition, target)
        if diverging is not None:
            return TargetRead(target, partition, diverging, None), 0
    max_bytes = max(0, min(target.max_bytes, budget))
    piece = log.read(target.fetch_offset, max_bytes=max_bytes, min_one_batch=one_batch)
    if is_first_look:
        # It is on our branch of history and within our log. The answer has the high watermark that this lets rise.
        followers.fetched(client.replica_id, fetch)
    if not followers.may_send_to(client.replica_id):
        # There is no partition to wait for: an append would not change that.
        read, _ = _take(target, partition, empty_slice(target.fetch_offset), None)
        return read._replace(partition=None), 0
    read, length = _take(target, partition, piece, None)
    if length and followers.is_throttled:
        partition.host.throttle.record(length, partition.host.now_ms())
    return read, length


def _read_remote(context: BrokerContext, target: SessionTarget, client: FetchClient, *, budget: int) -> TargetRead:
    """Return what to read from the remote tier, or what to say if nothing is read from there now.

    Without bytes to spare, over the quota, or with nothing below the limit it is as if there was nothing to read yet.
    """
    partition, remote_reads = _find(context, target), context.remote_reads
    log = partition.log
    row = FetchPartitionResult(
        target.index,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        aborted_transactions=() if client.is_committed_only else None,
    )
    if client.replica_id >= 0:
        code = int(ErrorCode.offset_moved_to_tiered_storage)
        return TargetRead(target, partition, row._replace(error_code=code), None)
    if remote_reads is None:
        # The node has no tier, so that cannot be read here.
        return refused_read(target, ErrorCode.offset_out_of_range)
    upper = log.last_stable_offset if client.is_committed_only else log.high_watermark
    max_bytes = min(target.max_bytes, budget)
    if max_bytes <= 0 or upper <= target.fetch_offset or remote_reads.is_throttled:
        return TargetRead(target, partition, row, None)
    wanted = RemoteFetch(
        partition,
        target.fetch_offset,
        max_bytes=max_bytes,
        upper_offset=upper,
        # Only for the first data of the answer, which is not known before all of it was read.
        min_one_batch=True,
        is_committed_only=client.is_committed_only,
    )
    return TargetRead(target, partition, row, None, wanted)


def _take(
    target: SessionTarget, partition: Partition, piece: ReadSlice, aborted: Sequence[tuple[int, int]] | None
) -> tuple[TargetRead, int]:
    """Return a row with the bytes of a slice if they are in memory, else the row that waits for them."""
    log = partition.log
    try:
        records = piece.take_nowait() if piece.length else b""
    except OSError as error:
        raise StorageError(log.log_dir, f"cannot read {log.topic_partition}: {error}") from error
    if piece.is_lost:
        raise _lost(partition, piece)
    offsets = log.state  # without the calls of the log's properties
    row = FetchPartitionResult(
        target.index,
        0,
        offsets.high_watermark,
        offsets.last_stable_offset,
        offsets.log_start_offset,
        b"" if records is None else records,
        aborted,
    )
    if records is None:
        return TargetRead(target, partition, row, piece), piece.length
    return TargetRead(target, partition, row, None), len(records)


def _find(context: BrokerContext, target: SessionTarget) -> Partition:
    if target.topic_id == ZERO_UUID:
        return context.partitions.by_name(target.topic, target.index)
    return context.partitions.by_id(target.topic_id, target.index)


def _divergence(partition: Partition, target: SessionTarget) -> FetchPartitionResult | None:
    # KIP-595/KIP-320: the client's last record is not on our branch of history, so it has to truncate.
    epoch, end_offset = partition.log.end_offset_for_epoch(target.last_fetched_epoch)
    if epoch == UNKNOWN or end_offset == UNKNOWN:
        raise OperationError(ErrorCode.offset_out_of_range)
    if target.fetch_offset < partition.log.log_start_offset:
        # What it lacks is gone, on whatever branch it is.
        raise OperationError(ErrorCode.offset_out_of_range)
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        return FetchPartitionResult(target.index, 0, UNKNOWN, diverging_epoch=(epoch, end_offset))
    return None


def refused_read(target: SessionTarget, error_code: ErrorCode) -> TargetRead:
    """Return the row of a target that is not read."""
    return TargetRead(target, None, FetchPartitionResult(target.index, int(error_code), UNKNOWN), None)
