"""ListOffsets (2): offsets by timestamp, and the special timestamps.

-1 latest (high watermark, or last stable offset under read_committed; the log end for replicas), -2 earliest, -3 record
with the largest timestamp (KIP-734), -4 earliest local (KIP-405), -5 latest tiered (KIP-1005), -6 earliest pending
upload (KIP-1023). Nothing is tiered here, so -4 equals -2, and -5 and -6 answer with no offset.

A new leader whose high watermark is still behind the beginning of its epoch does not know how far consumers may read:
what it would have to guess is OFFSET_NOT_AVAILABLE (KIP-207).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.errors import CorruptDataError, OperationError, StorageError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.partition import Partition
    from crabka.serving.request import Request

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
READ_COMMITTED = 1
CONSUMER_ID = -1
FIRST_VERSION_WITH_NOT_AVAILABLE = 5
# A tool that looks at a replica as it is, leader or not.
DEBUGGING_ID = -2
# The lowest request version that may ask for a special timestamp; older ones get UNSUPPORTED_VERSION as in Kafka.
_MIN_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


class _Found(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class _Reach(NamedTuple):
    """How far a client may look, and whether a new leader knows that already."""

    end_offset: int
    is_settled: bool

    def require_settled(self) -> None:
        if not self.is_settled:
            raise OperationError(ErrorCode.offset_not_available)


_NOTHING = _Found(-1, -1, -1)


async def handle(context: BrokerContext, request: Request) -> Any:
    """Answer every partition; timestamp searches read the log in a thread."""
    types = response_types(request.api_key, request.version)
    topics = []
    for topic in request.body.topics:
        rows = []
        for wanted in topic.partitions:
            error_code, found = ErrorCode.none, _NOTHING
            try:
                found = await _find(context, topic.name, wanted, request)
            except OperationError as error:
                error_code = error.error_code
            except StorageError as error:
                context.logs.on_dir_failure(error.log_dir, error)
                error_code = ErrorCode.kafka_storage_error
            except CorruptDataError:
                error_code = ErrorCode.corrupt_message
            rows.append(
                types.new(
                    "ListOffsetsPartitionResponse",
                    partition_index=wanted.partition_index,
                    error_code=error_code,
                    timestamp=found.timestamp,
                    offset=found.offset,
                    leader_epoch=found.leader_epoch,
                )
            )
        topics.append(types.new("ListOffsetsTopicResponse", name=topic.name, partitions=rows))
    return types.message(throttle_time=0, topics=topics)


async def _find(context: BrokerContext, topic: str, wanted: Any, request: Request) -> _Found:
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
        return await _lookup(context, partition, timestamp, _reach(partition, request.body))
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


async def _lookup(context: BrokerContext, partition: Partition, timestamp: int, reach: _Reach) -> _Found:
    log = partition.log
    match timestamp:
        case -1:
            reach.require_settled()
            return _Found(-1, reach.end_offset, partition.leader_epoch)
        case -2 | -4:
            return _Found(-1, log.log_start_offset, _epoch_at(partition, log.log_start_offset))
        case -5 | -6:
            return _NOTHING
        case -3:
            found = await context.runtime.threads.submit(log.max_timestamp_offset)
        case _:
            found = await context.runtime.threads.submit(log.offset_for_timestamp, timestamp)
    if found is None or found.offset >= reach.end_offset:
        reach.require_settled()
        return _NOTHING
    return _Found(found.timestamp, found.offset, found.leader_epoch)


def _epoch_at(partition: Partition, offset: int) -> int:
    epoch = partition.log.leader_epochs.epoch_for_offset(offset)
    return partition.leader_epoch if epoch is None else epoch
