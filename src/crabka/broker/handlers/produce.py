"""Produce (0): appends one batch per partition and answers when it is as safe as `acks` asks.

acks=1 and acks=all are answered after the write reached the page cache, as in Kafka; acks=all waits in
addition for the high watermark, which the replicas in sync let rise. acks=0 gets no answer: an error closes the
connection, which is all that such a client can notice. Versions 3 to 13 are served; from version 10 on an answer says
where a partition is led if not here (KIP-951), from version 13 on topics are named by id.

The first batch of a transaction in a partition waits for the coordinator (KIP-890): up to version 11 it confirms that
the client added the partition, from version 12 on the partition is added by the write itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabka.broker.current_leaders import MISDIRECTED_PRODUCE, CurrentLeaders
from crabka.broker.partition.partition import RequiredOffset
from crabka.broker.partition.purgatory import Delayed, ReachedOffsets, replicated
from crabka.broker.produce.transactional_produce import TransactionalProduce
from crabka.broker.transactions.verification import PRODUCE_VERSIONS, TransactionalProducer, VerificationMode
from crabka.errors import OperationError, StorageError, WireError, drop_tracebacks
from crabka.log.partition.validation import check_client_batch
from crabka.log.producers.verification import ANY_TERMS, AppendTerms
from crabka.protocol.error_codes import ErrorCode, error_message
from crabka.protocol.hot import ProducePartitionResult, ProduceTopicResult, pack_produce_response, read_produce_request
from crabka.records.header import CODEC_MASK, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.partition.partition import Partition
    from crabka.log.partition.append import AppendResult
    from crabka.ports import Buffer
    from crabka.protocol.hot import ProducePartition, ProduceTopic
    from crabka.records.header import BatchHeader
    from crabka.serving.request import Request

    Frame = Sequence[Buffer]

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_ENDPOINTS = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13
ZSTD = 4
_NONE = int(ErrorCode.none)
# Half the price of a NamedTuple's own constructor.
_new = tuple.__new__
# Batches without any of these attributes need no look at the request's version or at transactions.
_CHECKED_ATTRIBUTES = CODEC_MASK | TRANSACTIONAL_FLAG
# Stands in a row's place until a thread is done with its batch; recognised by identity.
_QUEUED = ProducePartitionResult(-1, int(ErrorCode.unknown_server_error), -1)

read = read_produce_request


def handle(context: BrokerContext, request: Request) -> Frame | asyncio.Future[Any] | None:
    """Append everything now; wait only for batches that need a thread and for a high watermark that lags."""
    produce = _Produce(context, request)
    append = produce.append
    topics = [
        _new(ProduceTopicResult, (topic.name, topic.topic_id, [append(topic, row) for row in topic.partitions]))
        for topic in request.body.topics
    ]
    if produce.transaction is not None:
        context.spawn(produce.transaction.run(produce.append_verified, produce.failure))
    if produce.queued:
        return context.spawn(produce.finish_later(topics))
    return produce.finish(topics)


def handle_without(
    context: BrokerContext, request: Request, refused: Sequence[ProduceTopic], error_code: int
) -> Frame | asyncio.Future[Any] | None:
    """Answer as `handle`, but append nothing to some topics, whose rows get an error."""
    produce = _Produce(context, request)
    topics = [
        ProduceTopicResult(
            topic.name,
            topic.topic_id,
            [
                ProducePartitionResult(row.partition, error_code, -1)
                if any(topic is each for each in refused)
                else produce.append(topic, row)
                for row in topic.partitions
            ],
        )
        for topic in request.body.topics
    ]
    if produce.transaction is not None:
        context.spawn(produce.transaction.run(produce.append_verified, produce.failure))
    if produce.queued:
        return context.spawn(produce.finish_later(topics))
    return produce.finish(topics)


class _Produce:
    """One produce request on its way: what it asks for, and what its answer has to wait for."""

    __slots__ = (
        "_acks",
        "_clock",
        "_context",
        "_is_misdirected",
        "_now_ms",
        "_request",
        "_waiting",
        "queued",
        "transaction",
    )

    def __init__(self, context: BrokerContext, request: Request) -> None:
        self._context = context
        self._request = request
        self._acks: int = request.body.acks
        self._clock = context.runtime.clock
        self._now_ms = self._clock.now_ms()
        # High watermarks to reach, and batches that wait for a thread in the order of their rows.
        self._waiting: dict[Partition, RequiredOffset] = {}
        self.queued: list[asyncio.Future[ProducePartitionResult]] = []
        # Whether a partition is led elsewhere.
        self._is_misdirected = False
        # Batches that wait for the transaction coordinator.
        self.transaction: TransactionalProduce | None = None

    def append(self, topic: ProduceTopic, row: ProducePartition) -> ProducePartitionResult:
        """Append the batch of one row; an error becomes its result."""
        index, records = row
        try:
            partition = self._find_partition(topic, index)
            if records is None:
                raise OperationError(
                    ErrorCode.invalid_record, "Produce requests must contain exactly one record batch per partition"
                )
            log = partition.log.state
            header = check_client_batch(records, log.config, self._now_ms)
            if self._acks == ACKS_ALL:
                partition.require_min_isr()
            if header.attributes & _CHECKED_ATTRIBUTES:
                self._check_attributes(header)
                if header.attributes & TRANSACTIONAL_FLAG and header.producer_id >= 0:
                    return self._append_transactional(partition, records, header)
            validate = self._context.config.crabka_validate_records
            writer = partition.writer
            # The attributes decide the usual case without a call.
            if (
                validate or partition.queue.length or writer.is_slow or log.has_slow_path
            ) and partition.queue.is_needed(len(records), header, validate=validate):
                return self._queue(partition, records, header, ANY_TERMS)
            result = partition.append(records, header, self._now_ms)
            if writer.is_slow:
                # The rows that follow are not to blame.
                self._now_ms = self._clock.now_ms()
        except (OperationError, StorageError) as error:
            return self.failure(index, error)
        return self._success(partition, result)

    def _append_transactional(
        self, partition: Partition, records: Buffer, header: BatchHeader
    ) -> ProducePartitionResult:
        """Append at once if the transaction is open in the partition, else let the batch wait for the coordinator."""
        context, transactional_id = self._context, self._request.body.transactional_id
        if transactional_id is None:
            raise OperationError(ErrorCode.transactional_id_authorization_failed)
        producer_id = header.producer_id
        terms = ANY_TERMS
        mode = VerificationMode.of_version(self._request.version, PRODUCE_VERSIONS)
        if mode.asks_coordinator(verifies=context.config.transaction_partition_verification_enable):
            terms = AppendTerms(guard=None)
            state, verifying = partition.log.producer_state, partition.queue.verifying
            if producer_id in verifying or not state.has_open_transaction(producer_id, header.producer_epoch):
                if self.transaction is None:
                    producer = TransactionalProducer(transactional_id, producer_id, header.producer_epoch)
                    self.transaction = TransactionalProduce(context, producer, self._request.version)
                self.queued.append(self.transaction.add(partition, records, header))
                return _QUEUED
        if partition.queue.is_needed(len(records), header, validate=context.config.crabka_validate_records):
            return self._queue(partition, records, header, terms)
        return self._success(partition, partition.append(records, header, self._clock.now_ms(), terms=terms))

    async def append_verified(
        self, partition: Partition, records: bytes, header: BatchHeader, terms: AppendTerms
    ) -> ProducePartitionResult:
        """Append a batch whose transaction the coordinator knows."""
        try:
            partition.require_leader()
            if self._acks == ACKS_ALL:
                partition.require_min_isr()
            validate = self._context.config.crabka_validate_records
            if not partition.queue.is_needed(len(records), header, validate=validate):
                return self._success(partition, partition.append(records, header, self._clock.now_ms(), terms=terms))
            result = await partition.queue.append(
                self._context.request_threads, records, header, self._clock.now_ms(), validate=validate, terms=terms
            )
        except (OperationError, StorageError) as error:
            return self.failure(partition.index, error)
        return self._success(partition, result)

    def _queue(
        self, partition: Partition, records: Buffer, header: BatchHeader, terms: AppendTerms
    ) -> ProducePartitionResult:
        threads, spawn = self._context.request_threads, self._context.spawn
        validate = self._context.config.crabka_validate_records
        # A task of its own: a stop that comes before its first step must not leave it unawaited.
        append = spawn(partition.queue.append(threads, records, header, self._now_ms, validate=validate, terms=terms))
        self.queued.append(spawn(self._append_queued(partition, append)))
        return _QUEUED

    def finish(self, topics: list[ProduceTopicResult]) -> Frame | asyncio.Future[Frame] | None:
        """Return the answer, or its future if it has to wait for replication; None for acks=0."""
        request = self._request
        if self._acks == ACKS_NONE:
            _require_success(topics)
            return None
        if not self._waiting:
            if self._is_misdirected:
                return self._pack_with_leaders(topics)
            return (pack_produce_response(request.version, request.correlation_id, topics),)

        def answer() -> Frame:
            failures = condition.failures
            return self._pack_with_leaders(_with_failures(topics, failures) if failures else topics)

        condition = ReachedOffsets(self._waiting, replicated)
        return Delayed(answer, condition).start(request.body.timeout_ms)

    def _pack_with_leaders(self, topics: list[ProduceTopicResult]) -> Frame:
        """Pack the answer; rows of partitions that are led elsewhere name the leader (KIP-951)."""
        request = self._request
        leaders = CurrentLeaders(self._context, request.connection.listener)

        def with_leader(topic: ProduceTopicResult, row: ProducePartitionResult) -> ProducePartitionResult:
            if row.error_code not in MISDIRECTED_PRODUCE:
                return row
            return row._replace(current_leader=leaders.of(topic.name, topic.topic_id, row.partition))

        if request.version >= FIRST_VERSION_WITH_ENDPOINTS:
            topics = [
                topic._replace(partitions=[with_leader(topic, row) for row in topic.partitions]) for topic in topics
            ]
        endpoints = leaders.endpoints
        return (pack_produce_response(request.version, request.correlation_id, topics, node_endpoints=endpoints),)

    async def finish_later(self, topics: list[ProduceTopicResult]) -> Frame | None:
        """Wait for the threads, then finish."""
        results = iter([await each for each in self.queued])
        finished = [
            topic._replace(partitions=[next(results) if row is _QUEUED else row for row in topic.partitions])
            for topic in topics
        ]
        frame = self.finish(finished)
        return await frame if isinstance(frame, asyncio.Future) else frame

    def _find_partition(self, topic: ProduceTopic, index: int) -> Partition:
        if not ACKS_ALL <= self._acks <= ACKS_LEADER:
            raise OperationError(ErrorCode.invalid_required_acks)
        if self._request.version >= FIRST_VERSION_WITH_TOPIC_IDS:
            partition = self._context.partitions.by_id(topic.topic_id, index)
        else:
            partition = self._context.partitions.by_name(topic.name, index)
        if not partition.is_leader:
            raise OperationError(ErrorCode.not_leader_or_follower)
        return partition

    def _check_attributes(self, header: BatchHeader) -> None:
        if header.codec == ZSTD and self._request.version < FIRST_VERSION_WITH_ZSTD:
            raise OperationError(
                ErrorCode.unsupported_compression_type,
                "Produce requests with version lower than 7 are not allowed to use ZStandard compression",
            )

    async def _append_queued(
        self, partition: Partition, append: asyncio.Future[AppendResult]
    ) -> ProducePartitionResult:
        try:
            return self._success(partition, await append)
        except (OperationError, StorageError) as error:
            return self.failure(partition.index, error)

    def _success(self, partition: Partition, result: AppendResult) -> ProducePartitionResult:
        first_offset, last_offset, log_append_time_ms, log_start_offset, leader_epoch, _ = result
        # The epoch may have ended since a thread finished the append: then the high watermark says nothing.
        if self._acks == ACKS_ALL and (
            partition.log.state.high_watermark <= last_offset or partition.leader_epoch != leader_epoch
        ):
            self._waiting[partition] = RequiredOffset(last_offset + 1, leader_epoch)
        row = (partition.index, _NONE, first_offset, log_append_time_ms, log_start_offset, (), None, None)
        return _new(ProducePartitionResult, row)

    def failure(self, index: int, error: OperationError | StorageError) -> ProducePartitionResult:
        """Return the row of a batch that was refused."""
        if isinstance(error, StorageError):
            self._context.logs.on_dir_failure(error.log_dir, error)
            code = ErrorCode.kafka_storage_error
            return ProducePartitionResult(index, int(code), -1, error_message=error_message(code))
        drop_tracebacks(error)
        self._is_misdirected |= error.error_code is ErrorCode.not_leader_or_follower
        return ProducePartitionResult(
            index,
            int(error.error_code),
            -1,
            record_errors=getattr(error, "record_errors", ()),
            error_message=error.message or error_message(error.error_code),
        )


def _with_failures(topics: list[ProduceTopicResult], failures: dict[Partition, ErrorCode]) -> list[ProduceTopicResult]:
    """Return the results with the errors of partitions whose records are not known to be replicated."""
    codes = {(name, partition.index): code for partition, code in failures.items() for name in _names_of(partition)}

    def with_failure(topic: ProduceTopicResult, row: ProducePartitionResult) -> ProducePartitionResult:
        code = codes.get((topic.name, row.partition)) or codes.get((topic.topic_id, row.partition))
        if code is None or row.error_code != _NONE:
            return row
        return ProducePartitionResult(row.partition, int(code), -1, error_message=error_message(code))

    return [topic._replace(partitions=[with_failure(topic, row) for row in topic.partitions]) for topic in topics]


def _names_of(partition: Partition) -> tuple[object, object]:
    return partition.topic, partition.topic_id


def _require_success(topics: list[ProduceTopicResult]) -> None:
    for topic in topics:
        for row in topic.partitions:
            if row.error_code != _NONE:
                name = ErrorCode(row.error_code).name
                raise WireError(f"a produce with acks=0 failed with {name}: the client sees the connection close")
