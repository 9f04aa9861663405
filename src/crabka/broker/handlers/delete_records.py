"""DeleteRecords (21): moves the log start offset up; -1 stands for the high watermark (KIP-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.cluster_view import INTERNAL_TOPICS
from crabka.errors import OperationError, StorageError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.log.partition_log import PartitionLog
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

HIGH_WATERMARK = -1
INVALID_LOW_WATERMARK = -1


async def handle(context: BrokerContext, request: Request) -> Any:
    """Trim every partition. The new start is checkpointed before the answer: trimmed records never come back."""
    types = response_types(request.api_key, request.version)
    wanted = [
        (
            topic.name,
            [_trim_safely(context, topic.name, each.partition_index, each.offset) for each in topic.partitions],
        )
        for topic in request.body.topics
    ]
    trimmed_dirs = {trimmed.log_dir for _, rows in wanted for trimmed in rows if trimmed.log_dir is not None}
    if trimmed_dirs:
        await context.logs.save_log_starts(trimmed_dirs)
    offline = context.logs.offline_dirs
    topics = [
        types.new(
            "DeleteRecordsTopicResult",
            name=name,
            partitions=[
                _row(types, _Trimmed(row.partition, ErrorCode.kafka_storage_error) if row.log_dir in offline else row)
                for row in rows
            ],
        )
        for name, rows in wanted
    ]
    return types.message(throttle_time=0, topics=topics)


class _Trimmed(NamedTuple):
    """What came of one partition; `log_dir` is where its new start has to be written down."""

    partition: int
    error_code: ErrorCode
    low_watermark: int = INVALID_LOW_WATERMARK
    log_dir: str | None = None


def _row(types: MessageTypes, trimmed: _Trimmed) -> Any:
    return types.new(
        "DeleteRecordsPartitionResult",
        partition_index=trimmed.partition,
        low_watermark=trimmed.low_watermark,
        error_code=trimmed.error_code,
    )


def _trim_safely(context: BrokerContext, topic: str, index: int, offset: int) -> _Trimmed:
    try:
        log = _trim(context, topic, index, offset)
    except OperationError as error:
        return _Trimmed(index, error.error_code)
    except StorageError as error:
        context.logs.on_dir_failure(error.log_dir, error)
        return _Trimmed(index, ErrorCode.kafka_storage_error)
    return _Trimmed(index, ErrorCode.none, log.log_start_offset, log.log_dir)


def _trim(context: BrokerContext, topic: str, index: int, offset: int) -> PartitionLog:
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
    log.delete_records_before(target)
    return log
