"""DescribeLogDirs (35): where replicas lie and how much room there is (KIP-113, KIP-827, KIP-1066).

Every dir of `log.dirs` has a row, in that order; one that failed has nothing but its error. A replica that moves to
another dir is in both, there as a future one. Version 3 has an error of the whole answer, version 4 the size of the
disk, version 5 marks cordoned dirs.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from crabka.metadata.features import CORDONED_DIRECTORIES_LEVEL
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.ports import DiskUsage
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request

    # Topic -> rows of its partitions.
    Replicas = dict[str, list[Any]]

logger = logging.getLogger(__name__)

UNKNOWN_BYTES = -1


async def handle(context: BrokerContext, request: Request) -> Any:
    """Describe every log dir, with all partitions or only the asked ones."""
    types = response_types(request.api_key, request.version)
    # A disk that is about to fail may let this wait.
    usages = await asyncio.gather(*(_usage(context, each.path) for each in context.logs.dirs))
    replicas = _replicas_by_dir(context, types, _wanted_partitions(request.body))
    cordoned = context.logs.dirs.cordoned if _knows_cordons(context) else ()
    results = [
        _failed_row(types, path)
        if usage is None
        else types.new(
            "DescribeLogDirsResult",
            error_code=ErrorCode.none,
            log_dir=path,
            topics=_topic_rows(types, replicas.get(path, {})),
            total_bytes=usage.total_bytes,
            usable_bytes=usage.free_bytes,
            is_cordoned=path in cordoned,
        )
        for path, usage in usages
    ]
    return types.message(throttle_time=0, error_code=ErrorCode.none, results=results)


def _wanted_partitions(body: Any) -> set[tuple[str, int]] | None:
    if body.topics is None:
        return None
    return {(topic.topic, index) for topic in body.topics for index in topic.partitions}


async def _usage(context: BrokerContext, path: str) -> tuple[str, DiskUsage | None]:
    """Return size and free space of a log dir, None if it does not work."""
    usage = None
    if context.logs.dirs.is_online(path):
        try:
            usage = await context.request_threads.submit(context.runtime.fs.disk_usage, path)
        except OSError as error:
            # Kafka answers so, too, and leaves it to the next read or write to take the dir offline.
            logger.warning("cannot find the size of %s: %s", path, error)
    return path, usage if context.logs.dirs.is_online(path) else None


def _replicas_by_dir(
    context: BrokerContext, types: MessageTypes, wanted: set[tuple[str, int]] | None
) -> dict[str, Replicas]:
    found: dict[str, Replicas] = {}
    for partition in context.partitions:
        if wanted is None or (partition.topic, partition.index) in wanted:
            replica = types.new(
                "DescribeLogDirsPartition",
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                # A follower may know how much is committed before it has all of that.
                offset_lag=max(partition.log.high_watermark - partition.log.log_end_offset, 0),
                is_future_key=False,
            )
            found.setdefault(partition.log.log_dir, {}).setdefault(partition.topic, []).append(replica)
    for move in context.moves.progress():
        moving = context.partitions.get(move.topic, move.partition)
        if moving is not None and moving.log.log_dir == move.target_dir:
            # It is there; the rest of the work is internal.
            continue
        if wanted is None or (move.topic, move.partition) in wanted:
            future = types.new(
                "DescribeLogDirsPartition",
                partition_index=move.partition,
                partition_size=move.size_bytes,
                offset_lag=move.offset_lag,
                is_future_key=True,
            )
            found.setdefault(move.target_dir, {}).setdefault(move.topic, []).append(future)
    return found


def _topic_rows(types: MessageTypes, replicas: Replicas) -> list[Any]:
    return [
        types.new(
            "DescribeLogDirsTopic", name=topic, partitions=sorted(rows, key=lambda replica: replica.partition_index)
        )
        for topic, rows in sorted(replicas.items())
    ]


def _failed_row(types: MessageTypes, path: str) -> Any:
    return types.new(
        "DescribeLogDirsResult",
        error_code=ErrorCode.kafka_storage_error,
        log_dir=path,
        topics=(),
        total_bytes=UNKNOWN_BYTES,
        usable_bytes=UNKNOWN_BYTES,
    )


def _knows_cordons(context: BrokerContext) -> bool:
    return context.image.features.metadata_version >= CORDONED_DIRECTORIES_LEVEL
