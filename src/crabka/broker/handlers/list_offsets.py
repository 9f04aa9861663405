"""ListOffsets (2): offsets by timestamp, and the special timestamps.

-1 latest (high watermark, or last stable offset under read_committed), -2 earliest, -3 record with the largest
timestamp (KIP-734), -4 earliest local (KIP-405), -5 latest tiered (KIP-1005), -6 earliest pending upload
(KIP-1023). Nothing is tiered here, so -4 equals -2, and -5 and -6 answer with no offset.
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
# The lowest request version that may ask for a special timestamp; older ones get UNSUPPORTED_VERSION as in Kafka.
_MIN_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


class _Found(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


_NOTHING = _Found(-1, -1, -1)


async def handle(context: BrokerContext, request: Request) -> Any:
    """Answer every partition; timestamp searches read the log in a thread."""
    types = response_types(request.api_key, request.version)
    isolation_level = getattr(request.body, "isolation_level", 0)
    topics = []
    for topic in request.body.topics:
        rows = []
        for wanted in topic.partitions:
            error_code, found = ErrorCode.none, _NOTHING
            try:
                found = await _find(context, topic.name, wanted, version=request.version, isolation=isolation_level)
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


async def _find(context: BrokerContext, topic: str, wanted: Any, *, version: int, isolation: int) -> _Found:
    timestamp: int = wanted.timestamp
    if timestamp < EARLIEST_PENDING_UPLOAD or version < _MIN_VERSIONS.get(timestamp, 0):
        raise OperationError(ErrorCode.unsupported_version)
    partition = context.partitions.by_name(topic, wanted.partition_index)
    partition.require_leader(getattr(wanted, "current_leader_epoch", -1))
    return await _lookup(context, partition, timestamp, isolation)


async def _lookup(context: BrokerContext, partition: Partition, timestamp: int, isolation: int) -> _Found:
    log = partition.log
    upper = log.last_stable_offset if isolation == READ_COMMITTED else log.high_watermark
    match timestamp:
        case -1:
            return _Found(-1, upper, partition.leader_epoch)
        case -2 | -4:
            return _Found(-1, log.log_start_offset, _epoch_at(partition, log.log_start_offset))
        case -5 | -6:
            return _NOTHING
        case -3:
            found = await context.runtime.threads.submit(log.max_timestamp_offset)
        case _:
            found = await context.runtime.threads.submit(log.offset_for_timestamp, timestamp)
    if found is None or found.offset >= upper:
        return _NOTHING
    return _Found(found.timestamp, found.offset, found.leader_epoch)


def _epoch_at(partition: Partition, offset: int) -> int:
    epoch = partition.log.leader_epochs.epoch_for_offset(offset)
    return partition.leader_epoch if epoch is None else epoch
