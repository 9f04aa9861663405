"""AlterReplicaLogDirs (34): lets replicas of this broker lie in other log dirs (KIP-113).

Answers at once; DescribeLogDirs reports the progress of a move. The checks come in this order: the dir is one of this
broker (LOG_DIR_NOT_FOUND), it works (KAFKA_STORAGE_ERROR) and takes replicas (INVALID_REPLICA_ASSIGNMENT if it is
cordoned, KIP-1066), the name of the future log is not too long (INVALID_TOPIC_EXCEPTION), the replica is here and its
disk works. For a replica that is not here the choice is remembered until it is created, and REPLICA_NOT_AVAILABLE is
answered. A partition that is named twice goes where it was named last. The versions do not differ but in their
encoding.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from crabka.errors import OperationError, StorageError
from crabka.formats.file_names import MAX_DIRECTORY_NAME
from crabka.ids import TopicPartition
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.broker.partition.partition import Partition
    from crabka.serving.request import Request

# "-" before the partition, "." and 32 digits behind it, "-future".
_FUTURE_NAME_EXTRA = len("-") + len(".") + 32 + len("-future")


def handle(context: BrokerContext, request: Request) -> Any:
    """Start or cancel moves and return for each partition whether that was possible."""
    types = response_types(request.api_key, request.version)
    outcomes: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.body.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                outcomes.setdefault(topic.name, {})[index] = _alter(context, directory.path, topic.name, index)
    return types.message(
        throttle_time=0,
        results=[
            types.new(
                "AlterReplicaLogDirTopicResult",
                topic_name=topic,
                partitions=[
                    types.new("AlterReplicaLogDirPartitionResult", partition_index=index, error_code=error_code)
                    for index, error_code in partitions.items()
                ],
            )
            for topic, partitions in outcomes.items()
        ],
    )


def _alter(context: BrokerContext, path: str, topic: str, index: int) -> ErrorCode:
    try:
        log_dir = _usable_dir(context, path)
        if len(topic) + len(str(index)) + _FUTURE_NAME_EXTRA > MAX_DIRECTORY_NAME:
            raise OperationError(ErrorCode.invalid_topic_exception, "The topic name is too long.")
        partition = _hosted(context, topic, index)
        if partition is None:
            context.choices.remember(TopicPartition(topic, index), log_dir)
            raise OperationError(ErrorCode.replica_not_available)
        context.moves.move(partition, log_dir)
    except OperationError as error:
        return error.error_code
    except StorageError:
        return ErrorCode.kafka_storage_error
    return ErrorCode.none


def _usable_dir(context: BrokerContext, path: str) -> str:
    log_dir = next((each for each in context.config.log_dirs if _same_path(each, path)), None)
    if log_dir is None:
        raise OperationError(ErrorCode.log_dir_not_found)
    if not context.logs.dirs.is_online(log_dir):
        raise OperationError(ErrorCode.kafka_storage_error)
    if log_dir in context.logs.dirs.cordoned:
        raise OperationError(ErrorCode.invalid_replica_assignment)
    return log_dir


def _same_path(one: str, other: str) -> bool:
    return posixpath.normpath(one) == posixpath.normpath(other)


def _hosted(context: BrokerContext, topic: str, index: int) -> Partition | None:
    """Return a partition that is here, None if it is not. Raises OperationError if its disk failed."""
    try:
        return context.partitions.by_name(topic, index)
    except OperationError as error:
        if error.error_code is ErrorCode.kafka_storage_error:
            raise
        return None
