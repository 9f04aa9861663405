"""DeleteRecords (21): moves the log start offset up; -1 stands for the high watermark (KIP-107).

The followers get the new log start with their next fetch, and the response waits until the records are gone from all
living replicas, or is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.cluster_view import INTERNAL_TOPICS
from crabka.broker.partition.partition import RequiredOffset
from crabka.broker.partition.purgatory import Delayed, ReachedOffsets, deleted
from crabka.errors import OperationError, StorageError
from crabka.protocol.apis import ms, response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.partition.partition import Partition
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

HIGH_WATERMARK = -1
INVALID_LOW_WATERMARK = -1


async def handle(context: BrokerContext, request: Request) -> Any:
    """Trim every partition. The new start is checkpointed before the answer: trimmed records never come back."""
    types = response_types(request.api_key, request.version)
    topics = [
        (
            topic.name,
            [_trim_safely(context, topic.name, each.partition_index, each.offset) for each in topic.partitions],
        )
        for topic in request.body.topics
    ]
    rows = [row for _, trimmed in topics for row in trimmed]
    trimmed_dirs = {row.partition.log.log_dir for row in rows if row.partition is not None}
    if trimmed_dirs:
        await context.logs.save_log_starts(trimmed_dirs)
    failures = await _wait_for_replicas(rows, ms(request.body.timeout))
    offline = context.logs.offline_dirs

    def answered(row: _Trimmed) -> Any:
        partition = row.partition
        if partition is None:
            return _row(types, row.partition_index, row.error_code)
        if partition.log.log_dir in offline:
            return _row(types, row.partition_index, ErrorCode.kafka_storage_error)
        return _row(
            types, row.partition_index, failures.get(partition, ErrorCode.none), partition.followers.low_watermark()
        )

    return types.message(
        throttle_time=0,
        topics=[
            types.new("DeleteRecordsTopicResult", name=name, partitions=[answered(row) for row in trimmed])
            for name, trimmed in topics
        ],
    )


async def _wait_for_replicas(rows: list[_Trimmed], timeout_ms: int) -> dict[Partition, ErrorCode]:
    """Wait until no living replica has the records any more; return the partitions where that did not happen.

    A leader that was replaced meanwhile cannot say that they are gone: its successor may not have heard of it.
    """
    required = {row.partition: row.required for row in rows if row.partition is not None}
    if not required:
        return {}
    condition = ReachedOffsets(required, deleted)
    delayed: Delayed[None] = Delayed(lambda: None, condition)
    await delayed.start(timeout_ms)
    return condition.failures


class _Trimmed(NamedTuple):
    """What came of one row: the partition and where it begins now, or the error."""

    partition_index: int
    error_code: ErrorCode
    partition: Partition | None = None
    required: RequiredOffset = RequiredOffset(INVALID_LOW_WATERMARK, -1)


def _row(types: MessageTypes, index: int, error_code: ErrorCode, low_watermark: int = INVALID_LOW_WATERMARK) -> Any:
    is_known = error_code is ErrorCode.none
    return types.new(
        "DeleteRecordsPartitionResult",
        partition_index=index,
        low_watermark=low_watermark if is_known else INVALID_LOW_WATERMARK,
        error_code=error_code,
    )


def _trim_safely(context: BrokerContext, topic: str, index: int, offset: int) -> _Trimmed:
    try:
        partition = _trim(context, topic, index, offset)
    except OperationError as error:
        return _Trimmed(index, error.error_code)
    except StorageError as error:
        context.logs.on_dir_failure(error.log_dir, error)
        return _Trimmed(index, ErrorCode.kafka_storage_error)
    wanted = partition.log.log_start_offset if offset == HIGH_WATERMARK else offset
    return _Trimmed(index, ErrorCode.none, partition, RequiredOffset(wanted, partition.leader_epoch))


def _trim(context: BrokerContext, topic: str, index: int, offset: int) -> Partition:
    if topic in INTERNAL_TOPICS:
        raise OperationError(ErrorCode.invalid_topic_exception)
    partition = context.partitions.by_name(topic, index)
    partition.require_leader()
    log = partition.log
    # Kafka refuses to trim a purely compacted topic: its records are removed by the cleaner alone.
    if "delete" not in log.config.cleanup_policy:
        raise OperationError(ErrorCode.policy_violation)
    target = log.high_watermark if offset == HIGH_WATERMARK else offset
    if target < 0 or target > log.high_watermark:
        raise OperationError(ErrorCode.offset_out_of_range)
    log.retention.delete_records_before(target)
    return partition
