"""Rows of a Fetch response whose records come from the remote tier.

A consumer must never get OFFSET_OUT_OF_RANGE because a store or its metadata does not answer: it would skip records or
read all of them again. Of the codes that mean "try again" clients know few in a Fetch. The Java consumer refreshes
metadata and retries on KAFKA_STORAGE_ERROR and REPLICA_NOT_AVAILABLE, and throws on REQUEST_TIMED_OUT; librdkafka
retries on the same two, and hands UNKNOWN_SERVER_ERROR, which Kafka answers here, to the application.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.tiering.read.healing.segment_survey import DamagedSegmentError
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import FetchPartitionResult
from crabka.remote.errors import NotReadyError, RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.fetch.reader import TargetRead
    from crabka.broker.tiering.read.reader import RemoteReads

_UNKNOWN = -1


class RemoteBudget(NamedTuple):
    """How long an answer may wait for the tier, and how many bytes of it are left for what comes from there."""

    wait_ms: float
    max_bytes: int
    # Nothing else is in the answer, so that its first batch may be larger than every limit (KIP-74).
    is_first: bool


async def with_remote_records(
    context: BrokerContext, reads: Sequence[TargetRead], budget: RemoteBudget
) -> list[TargetRead]:
    """Return the reads with records from the tier filled in, all of them read at the same time.

    Each gets what it wants as long as there is room in the answer, in order.
    """
    remote_reads = context.remote_reads
    if remote_reads is None:
        return list(reads)
    waiting = [read for read in reads if read.remote is not None]
    if len(waiting) == 1 and budget.is_first:
        filled = [await _fill(remote_reads, waiting[0], budget.wait_ms)]
    else:
        filled = await asyncio.gather(*(_fill(remote_reads, read, budget.wait_ms) for read in waiting))
        filled = await _fitted(remote_reads, waiting, filled, budget)
    remaining = iter(filled)
    return [read if read.remote is None else next(remaining) for read in reads]


async def _fitted(
    remote_reads: RemoteReads, waiting: Sequence[TargetRead], filled: Sequence[TargetRead], budget: RemoteBudget
) -> list[TargetRead]:
    """Return the rows cut to the room that there is; what is read again for that is in memory."""
    fitted = []
    room, is_first = budget.max_bytes, budget.is_first
    for read, row in zip(waiting, filled, strict=True):
        size, wanted = len(row.row.records), read.remote
        if wanted is not None and size > min(room, wanted.max_bytes) and not is_first:
            smaller = wanted._replace(max_bytes=max(0, min(room, wanted.max_bytes)), min_one_batch=False)
            row = await _fill(remote_reads, read._replace(remote=smaller), 0)
            size = len(row.row.records)
        fitted.append(row)
        room -= size
        is_first = is_first and not size
    return fitted


async def _fill(remote_reads: RemoteReads, read: TargetRead, wait_ms: float) -> TargetRead:
    wanted, partition = read.remote, read.partition
    if wanted is None or partition is None:
        return read
    try:
        found = await remote_reads.fetch(wanted, wait_ms)
    except RemoteStorageError as error:
        code = remote_error_code(error)
        if partition.log.log_start_offset > wanted.offset:
            # Retention has taken it meanwhile.
            code = ErrorCode.offset_out_of_range
        row = FetchPartitionResult(read.target.index, int(code), _UNKNOWN)
        return read._replace(partition=None, row=row, remote=None)
    row = read.row._replace(records=found.records, aborted_transactions=found.aborted)
    return read._replace(row=row, remote=None)


def remote_error_code(error: RemoteStorageError) -> ErrorCode:
    """Return the error of a consumer when the tier cannot be read; each code makes it try again."""
    if isinstance(error, NotReadyError):
        # One that reads from a follower goes to the leader, which may know more.
        return ErrorCode.replica_not_available
    if isinstance(error, DamagedSegmentError):
        return ErrorCode.corrupt_message
    return ErrorCode.kafka_storage_error
