"""DeleteRecords (21): moves the log start offset up; -1 stands for the high watermark (KIP-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.cluster_view import INTERNAL_TOPICS
from crabka.errors import OperationError, StorageError
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext, Request

HIGH_WATERMARK = -1
INVALID_LOW_WATERMARK = -1


async def handle(context: BrokerContext, request: Request) -> Any:
    """Trim every partition. The new start is checkpointed before the answer: trimmed records never come back."""
    types = response_types(request.api_key, request.version)
    trimmed_dirs: set[str] = set()
    topics = []
    for topic in request.body.topics:
        rows = []
        for wanted in topic.partitions:
            error_code, low_watermark = ErrorCode.none, INVALID_LOW_WATERMARK
            try:
                low_watermark = _trim(context, topic.name, wanted.partition_index, wanted.offset)
                trimmed_dirs.add(context.partitions.by_name(topic.name, wanted.partition_index).log.log_dir)
            except OperationError as error:
                error_code = error.error_code
            except StorageError as error:
                context.logs.on_dir_failure(error.log_dir, error)
                error_code = ErrorCode.kafka_storage_error
            rows.append(
                types.new(
                    "DeleteRecordsPartitionResult",
                    partition_index=wanted.partition_index,
                    low_watermark=low_watermark,
                    error_code=error_code,
                )
            )
        topics.append(types.new("DeleteRecordsTopicResult", name=topic.name, partitions=rows))
    if trimmed_dirs:
        await context.logs.save_log_starts(trimmed_dirs)
    return types.message(throttle_time=0, topics=topics)


def _trim(context: BrokerContext, topic: str, index: int, offset: int) -> int:
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
    return log.log_start_offset
