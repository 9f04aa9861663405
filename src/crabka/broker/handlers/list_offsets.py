"""ListOffsets (2): offsets by timestamp, and the special timestamps.

-1 latest (high watermark, or last stable offset under read_committed; the log end for replicas), -2 earliest, -3 record
with the largest timestamp, of those on this disk (KIP-734), -4 earliest local (KIP-405), -5 latest tiered (KIP-1005),
-6 earliest pending upload (KIP-1023). Without tiering -4 equals -2, and -5 and -6 answer with no offset.

A timestamp is looked for in the remote tier first, in all partitions of a request at the same time. What takes longer
than the request says (version 10 and newer), or `remote.list.offsets.request.timeout.ms`, is REQUEST_TIMED_OUT.

A new leader whose high watermark is still behind the beginning of its epoch does not know how far consumers may read:
what it would have to guess is OFFSET_NOT_AVAILABLE (KIP-207).
"""

from __future__ import annotations

import asyncio
import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.fetch.remote_rows import remote_error_code
from crabka.broker.tiering.read.deadline import RemoteWaitOverError
from crabka.errors import CorruptDataError, OperationError, StorageError
from crabka.log.partition.decompression import search_limit
from crabka.log.partition.timestamps import TimestampOffset
from crabka.protocol.apis import ms, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.errors import RemoteStorageError

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.partition.partition import Partition
    from crabka.serving.request import Request

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
NO_TIMEOUT = datetime.timedelta(0)
READ_COMMITTED = 1
CONSUMER_ID = -1
FIRST_VERSION_WITH_NOT_AVAILABLE = 5
# A tool that looks at a replica as it is, leader or not.
DEBUGGING_ID = -2
# The lowest request version that may ask for a special timestamp; older ones get UNSUPPORTED_VERSION as in Kafka.
_MIN_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


class _Reach(NamedTuple):
    """How far a client may look, and whether a new leader knows that already."""

    end_offset: int
    is_settled: bool

    def require_settled(self) -> None:
        if not self.is_settled:
            raise OperationError(ErrorCode.offset_not_available)


class _Search(NamedTuple):
    reach: _Reach
    timeout_ms: int


_NOTHING = TimestampOffset(-1, -1, -1)


async def handle(context: BrokerContext, request: Request) -> Any:
    """Answer every partition; timestamp searches read the log in a thread, and the tier in tasks of their own."""
    types = response_types(request.api_key, request.version)
    wanted = [(topic.name, each) for topic in request.body.topics for each in topic.partitions]
    if context.remote_reads is None:
        answers = [await _answer(context, name, each, request) for name, each in wanted]
    else:
        answers = await asyncio.gather(*(_answer(context, name, each, request) for name, each in wanted))
    remaining = iter(answers)

    def row(partition_index: int) -> Any:
        error_code, found = next(remaining)
        return types.new(
            "ListOffsetsPartitionResponse",
            partition_index=partition_index,
            error_code=error_code,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch,
        )

    topics = [
        types.new(
            "ListOffsetsTopicResponse",
            name=topic.name,
            partitions=[row(each.partition_index) for each in topic.partitions],
        )
        for topic in request.body.topics
    ]
    return types.message(throttle_time=0, topics=topics)


async def _answer(
    context: BrokerContext, topic: str, wanted: Any, request: Request
) -> tuple[ErrorCode, TimestampOffset]:
    try:
        return ErrorCode.none, await _find(context, topic, wanted, request)
    except OperationError as error:
        return error.error_code, _NOTHING
    except StorageError as error:
        context.logs.on_dir_failure(error.log_dir, error)
        return ErrorCode.kafka_storage_error, _NOTHING
    except CorruptDataError:
        return ErrorCode.corrupt_message, _NOTHING
    except RemoteWaitOverError:
        return ErrorCode.request_timed_out, _NOTHING
    except RemoteStorageError as error:
        return remote_error_code(error), _NOTHING


async def _find(context: BrokerContext, topic: str, wanted: Any, request: Request) -> TimestampOffset:
    timestamp: int = wanted.timestamp
    if timestamp < EARLIEST_PENDING_UPLOAD or request.version < _MIN_VERSIONS.get(timestamp, 0):
        raise OperationError(ErrorCode.unsupported_version)
    partition = context.partitions.by_name(topic, wanted.partition_index)
    current_leader_epoch = getattr(wanted, "current_leader_epoch", -1)
    if request.body.replica_id == DEBUGGING_ID:
        partition.require_epoch(current_leader_epoch)
    else:
        partition.require_leader(current_leader_epoch)
    try:
        timeout_ms = ms(getattr(request.body, "timeout", None) or NO_TIMEOUT)
        if timeout_ms <= 0:
            timeout_ms = context.config.remote_list_offsets_request_timeout_ms
        return await _lookup(context, partition, timestamp, _Search(_reach(partition, request.body), timeout_ms))
    except OperationError as error:
        if error.error_code is ErrorCode.offset_not_available and request.version < FIRST_VERSION_WITH_NOT_AVAILABLE:
            raise OperationError(ErrorCode.leader_not_available) from error
        raise


def _reach(partition: Partition, body: Any) -> _Reach:
    log = partition.log
    if body.replica_id != CONSUMER_ID:
        return _Reach(log.log_end_offset, is_settled=True)
    replication = partition.replication
    is_settled = replication is None or log.high_watermark >= replication.epoch_start_offset
    is_committed_only = getattr(body, "isolation_level", 0) == READ_COMMITTED
    return _Reach(log.last_stable_offset if is_committed_only else log.high_watermark, is_settled)


async def _lookup(context: BrokerContext, partition: Partition, timestamp: int, search: _Search) -> TimestampOffset:
    log, reach = partition.log, search.reach
    match timestamp:
        case -1:
            reach.require_settled()
            return TimestampOffset(-1, reach.end_offset, partition.leader_epoch)
        case -2:
            return _found_at(partition, log.log_start_offset)
        case -4:
            return _found_at(partition, log.local_log_start_offset)
        case -5 | -6:
            found = _tiered(partition, timestamp)
        case -3:
            threads = context.request_threads
            found = await log.decompression.run(threads, search_limit(log.config), log.reads.max_timestamp_offset)
        case _:
            found = await _by_timestamp(context, partition, timestamp, search.timeout_ms)
    if found is None or found.offset >= reach.end_offset:
        reach.require_settled()
        return _NOTHING
    return found


async def _by_timestamp(
    context: BrokerContext, partition: Partition, timestamp: int, timeout_ms: int
) -> TimestampOffset | None:
    log = partition.log
    if context.remote_reads is not None and log.log_start_offset < log.local_log_start_offset:
        found = await context.remote_reads.offset_for_timestamp(partition, timestamp, timeout_ms)
        if found is not None:
            return found
    threads = context.request_threads
    return await log.decompression.run(threads, search_limit(log.config), log.reads.offset_for_timestamp, timestamp)


def _tiered(partition: Partition, timestamp: int) -> TimestampOffset | None:
    """Return the last offset that is in the tier, or the first that is not, as Kafka's UnifiedLog does."""
    log = partition.log
    if not log.is_tiered:
        return None
    highest = log.tiering.highest_remote_offset
    if timestamp == LATEST_TIERED:
        return None if highest < 0 else _found_at(partition, highest)
    if highest >= 0:
        return _found_at(partition, max(highest + 1, log.log_start_offset))
    # That nothing is known of the tier does not mean that nothing is there, if the disk does not have it all.
    return _found_at(partition, log.log_start_offset) if log.log_start_offset == log.local_log_start_offset else None


def _found_at(partition: Partition, offset: int) -> TimestampOffset:
    return TimestampOffset(-1, offset, _epoch_at(partition, offset))


def _epoch_at(partition: Partition, offset: int) -> int:
    epoch = partition.log.leader_epochs.lineage.epoch_at(offset)
    return partition.leader_epoch if epoch is None else epoch
