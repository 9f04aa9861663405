"""DescribeLogDirs (35): where replicas lie and how much room there is (KIP-113, KIP-827)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.log.partition_log import PartitionLog
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

UNKNOWN_BYTES = -1


def handle(context: BrokerContext, request: Request) -> Any:
    """Describe every log dir, with all partitions or only the asked ones."""
    types = response_types(request.api_key, request.version)
    wanted = _wanted_partitions(request.body)
    logs_by_dir: dict[str, dict[str, list[PartitionLog]]] = {}
    for partition in context.partitions:
        if wanted is None or (partition.topic, partition.index) in wanted:
            logs_by_dir.setdefault(partition.log.log_dir, {}).setdefault(partition.topic, []).append(partition.log)
    results = [_dir_row(context, types, log_dir, logs_by_dir.get(log_dir, {})) for log_dir in context.logs.online_dirs]
    results += [
        types.new("DescribeLogDirsResult", error_code=ErrorCode.kafka_storage_error, log_dir=log_dir, topics=())
        for log_dir in context.logs.offline_dirs
    ]
    return types.message(throttle_time=0, error_code=ErrorCode.none, results=results)


def _wanted_partitions(body: Any) -> set[tuple[str, int]] | None:
    if body.topics is None:
        return None
    return {(topic.topic, index) for topic in body.topics for index in topic.partitions}


def _dir_row(context: BrokerContext, types: MessageTypes, log_dir: str, topics: dict[str, list[PartitionLog]]) -> Any:
    try:
        usage = context.runtime.fs.disk_usage(log_dir)
        total, usable = usage.total_bytes, usage.free_bytes
    except OSError:
        total, usable = UNKNOWN_BYTES, UNKNOWN_BYTES
    return types.new(
        "DescribeLogDirsResult",
        error_code=ErrorCode.none,
        log_dir=log_dir,
        topics=[_topic_row(types, topic, logs) for topic, logs in sorted(topics.items())],
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=False,
    )


def _topic_row(types: MessageTypes, topic: str, logs: list[PartitionLog]) -> Any:
    partitions = [
        types.new(
            "DescribeLogDirsPartition",
            partition_index=log.partition,
            partition_size=log.size_bytes,
            offset_lag=0,
            is_future_key=False,
        )
        for log in sorted(logs, key=lambda log: log.partition)
    ]
    return types.new("DescribeLogDirsTopic", name=topic, partitions=partitions)
