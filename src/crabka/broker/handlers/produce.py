"""Produce (0): appends one batch per partition and answers when it is as safe as `acks` asks.

acks=1 and acks=all are answered after the write reached the page cache, as in Kafka; acks=all waits in
addition for the high watermark. acks=0 gets no answer: an error closes the connection, which is all that such a
client can notice. Versions 3 to 13 are served; from version 13 topics are named by id.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.broker.purgatory import DelayedProduce
from crabka.errors import OperationError, StorageError, WireError
from crabka.log.validation import check_client_batch
from crabka.protocol.error_codes import ErrorCode, error_message
from crabka.protocol.hot import ProducePartitionResult, ProduceTopicResult, pack_produce_response, read_produce_request

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from crabka.broker.context import BrokerContext, Request
    from crabka.broker.partition import Partition
    from crabka.log.append import AppendResult
    from crabka.ports import Buffer
    from crabka.protocol.hot import ProducePartition, ProduceTopic

    Frame = Sequence[Buffer]

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_TOPIC_IDS = 13
ZSTD = 4
_NONE = int(ErrorCode.none)
# Stands in a row's place until the pool is done with its batch; recognised by identity.
_POOLED = ProducePartitionResult(-1, int(ErrorCode.unknown_server_error), -1)

read = read_produce_request


def handle(context: BrokerContext, request: Request) -> Frame | asyncio.Future[Any] | None:
    """Append everything now; wait only for batches that need the pool and for a high watermark that lags."""
    waiting: dict[Partition, int] = {}
    pending: list[asyncio.Future[ProducePartitionResult]] = []
    topics = [
        ProduceTopicResult(
            topic.name,
            topic.topic_id,
            [_append(context, request, topic, row, _Later(waiting, pending)) for row in topic.partitions],
        )
        for topic in request.body.topics
    ]
    if pending:
        return context.spawn(_finish_later(request, topics, waiting, pending))
    return _finish(request, topics, waiting)


class _Later(NamedTuple):
    """What a request has to wait for: high watermarks to reach, and batches in the pool."""

    high_watermarks: dict[Partition, int]
    pooled: list[asyncio.Future[ProducePartitionResult]]


async def _finish_later(
    request: Request,
    topics: list[ProduceTopicResult],
    waiting: dict[Partition, int],
    pending: list[asyncio.Future[ProducePartitionResult]],
) -> Frame | None:
    results = iter([await each for each in pending])
    finished = [
        topic._replace(partitions=[next(results) if row is _POOLED else row for row in topic.partitions])
        for topic in topics
    ]
    frame = _finish(request, finished, waiting)
    return await frame if isinstance(frame, asyncio.Future) else frame


def _finish(
    request: Request, topics: list[ProduceTopicResult], waiting: dict[Partition, int]
) -> Frame | asyncio.Future[Any] | None:
    if request.body.acks == ACKS_NONE:
        _require_success(topics)
        return None

    def answer() -> Frame:
        return (pack_produce_response(request.version, request.correlation_id, topics),)

    if not waiting:
        return answer()
    return DelayedProduce(answer, waiting).start(request.body.timeout_ms)


def _append(
    context: BrokerContext, request: Request, topic: ProduceTopic, row: ProducePartition, later: _Later
) -> ProducePartitionResult:
    index, records = row
    try:
        partition = _find_partition(context, request, topic, index)
        if records is None:
            raise OperationError(
                ErrorCode.invalid_record, "Produce requests must contain exactly one record batch per partition"
            )
        now_ms = context.runtime.clock.now_ms()
        header = check_client_batch(records, partition.log.config, now_ms)
        _check_request(request, header.codec, transactional=header.is_transactional)
        if request.body.acks == ACKS_ALL:
            partition.require_min_isr()
        validate = context.config.crabka_validate_records
        if partition.must_prepare(len(records), validate=validate):
            append = partition.append_prepared(context.runtime.threads, records, header, now_ms, validate=validate)
            later.pooled.append(context.spawn(_append_pooled(context, request, partition, append, later)))
            return _POOLED
        result = partition.append(records, header, now_ms)
    except (OperationError, StorageError) as error:
        return _failure(context, index, error)
    return _success(request, partition, result, later)


async def _append_pooled(
    context: BrokerContext,
    request: Request,
    partition: Partition,
    append: Coroutine[Any, Any, AppendResult],
    later: _Later,
) -> ProducePartitionResult:
    try:
        return _success(request, partition, await append, later)
    except (OperationError, StorageError) as error:
        return _failure(context, partition.index, error)


def _success(request: Request, partition: Partition, result: AppendResult, later: _Later) -> ProducePartitionResult:
    if request.body.acks == ACKS_ALL and partition.log.high_watermark <= result.last_offset:
        later.high_watermarks[partition] = result.last_offset + 1
    return ProducePartitionResult(
        partition.index, _NONE, result.first_offset, result.log_append_time_ms, result.log_start_offset
    )


def _failure(context: BrokerContext, index: int, error: OperationError | StorageError) -> ProducePartitionResult:
    if isinstance(error, StorageError):
        context.logs.on_dir_failure(error.log_dir, error)
        code = ErrorCode.kafka_storage_error
        return ProducePartitionResult(index, int(code), -1, error_message=error_message(code))
    return ProducePartitionResult(
        index,
        int(error.error_code),
        -1,
        record_errors=getattr(error, "record_errors", ()),
        error_message=error.message or error_message(error.error_code),
    )


def _find_partition(context: BrokerContext, request: Request, topic: ProduceTopic, index: int) -> Partition:
    if not ACKS_ALL <= request.body.acks <= ACKS_LEADER:
        raise OperationError(ErrorCode.invalid_required_acks)
    if request.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        partition = context.partitions.by_id(topic.topic_id, index)
    else:
        partition = context.partitions.by_name(topic.name, index)
    if not partition.is_leader:
        raise OperationError(ErrorCode.not_leader_or_follower)
    return partition


def _check_request(request: Request, codec: int, *, transactional: bool) -> None:
    if codec == ZSTD and request.version < FIRST_VERSION_WITH_ZSTD:
        raise OperationError(
            ErrorCode.unsupported_compression_type,
            "Produce requests with version lower than 7 are not allowed to use ZStandard compression",
        )
    if transactional:
        # No transaction can be open here, because no transactional id was ever given out.
        raise OperationError(ErrorCode.invalid_txn_state)


def _require_success(topics: list[ProduceTopicResult]) -> None:
    for topic in topics:
        for row in topic.partitions:
            if row.error_code != _NONE:
                name = ErrorCode(row.error_code).name
                raise WireError(f"a produce with acks=0 failed with {name}: closing tells the client")
