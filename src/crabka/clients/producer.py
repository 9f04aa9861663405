"""The producer: batches records per partition and delivers them in order, each once (KIP-98).

`send` puts a record into its partition's batch and returns a future for its offset. One loop sends what is ready, a
batch of each partition per request and a few requests per broker at a time. What happens to a batch that fails is
decided in `delivery`, the order of retries in `accumulator`, what is held meanwhile in `record_buffer`.
With `idempotent=False` retries can change the order unless `max_in_flight` is 1, and can write records twice.
With a `transactional_id` records are sent in transactions, which `transactions` keeps: a batch that is lost spoils its
transaction, and nothing more of it is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import defaultdict
from typing import Any

from crabka._kio import ErrorCode
from crabka.clients.accumulator import (
    ANONYMOUS,
    PartitionQueue,
    ProducerBatch,
    ProducerIdentity,
    RecordMetadata,
    record_size,
)
from crabka.clients.cluster import Cluster
from crabka.clients.delivery import (
    PartitionOutcome,
    ProduceRequest,
    Verdict,
    judge,
    produce_request,
    read_outcomes,
)
from crabka.clients.errors import (
    AuthenticationError,
    ClientClosedError,
    ClientNetworkError,
    FatalTransactionError,
    RequestTimeoutError,
    TransactionError,
)
from crabka.clients.producer_settings import MAX_IDEMPOTENT_IN_FLIGHT, ProducerSettings
from crabka.clients.producer_transactions import ProducerTransactions
from crabka.clients.record_buffer import RecordBuffer
from crabka.clients.transaction_fates import transaction_error
from crabka.clients.transactions import TransactionLimits, TransactionManager, TransactionPhase
from crabka.errors import CrabkaError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.records.header import HEADER_SIZE, NO_SEQUENCE
from crabka.records.record import Headers, Record
from crabka.runtime.task_scope import TaskScope

__all__ = ["MAX_IDEMPOTENT_IN_FLIGHT", "Producer", "ProducerSettings"]


class Producer(ProducerTransactions):
    """Sends records to a cluster. Use as an async context manager: leaving it flushes."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings | None = None) -> None:
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._settings = settings or ProducerSettings()
        self._buffer = RecordBuffer(self._settings, cluster.runtime.rng)
        self._queues = self._buffer.queues
        self._identity: ProducerIdentity | None = None if self._settings.idempotent else ANONYMOUS
        self._in_flight: defaultdict[int, int] = defaultdict(int)
        self._flushing = 0
        self._scope = TaskScope(on_failure=self._on_failure)
        self._wake = asyncio.Event()
        self._progress = asyncio.Condition()
        self._chores: dict[str, asyncio.Task[Any]] = {}
        self._loop_task: asyncio.Task[Any] | None = None
        self._failure: Exception | None = None
        self._is_closed = False
        self._transactions: TransactionManager | None = None
        if self._settings.transactional_id is not None:
            limits = TransactionLimits(self._settings.transaction_timeout_ms, self._settings.max_block_ms)
            self._transactions = TransactionManager(cluster, self._settings.transactional_id, limits)

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        await self.close(flush=exc_type is None)

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of records wait or are in flight."""
        return self._buffer.size_bytes

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record and return a future for where it lands; waits while the buffer is full.

        Raises OperationError for a topic or partition that is unknown for `max_block_ms` and for a record beyond
        `max_request_bytes`, and ClientNetworkError when no broker answers in that time. A transactional producer raises
        TransactionError once its transaction is spoilt, and TransactionStateError outside of one.
        """
        if self._transactions is not None:
            self._transactions.require_open()
        size = record_size(key, value, headers)
        if size + HEADER_SIZE > self._settings.max_request_bytes:
            raise OperationError(ErrorCode.message_too_large, f"a record of {size} bytes is beyond max_request_bytes")
        metadata = await self._cluster.topic(topic, partition=partition, timeout_ms=self._settings.max_block_ms)
        await self._wait_for_room(size)
        if partition is None:
            partition = self._buffer.choose_partition(metadata, key, size)
        if self._transactions is not None:
            # Waiting for room or metadata took time: the transaction may have ended or be spoilt.
            self._transactions.require_open()
            self._transactions.add(TopicPartition(topic, partition))
        record = Record(0, self._clock.now_ms() if timestamp is None else timestamp, key, value, headers)
        return self._append(TopicPartition(topic, partition), record, size)

    async def send_and_wait(self, topic: str, value: bytes | None, key: bytes | None = None) -> RecordMetadata:
        """Send a record and wait until the broker has it."""
        return await (await self.send(topic, value, key))

    async def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed."""
        batches = self._buffer.unsettled()
        self._flushing += 1
        self._wake.set()
        try:
            async with self._progress:
                await self._progress.wait_for(lambda: all(batch.is_settled for batch in batches))
        finally:
            self._flushing -= 1

    async def close(self, *, flush: bool = True) -> None:
        """Flush, or fail what is left, and stop. Closing twice is allowed. The cluster stays open.

        Flushing aborts a transaction that was left open, so that it does not hold readers up.
        """
        if flush and not self._is_closed:
            if self._transactions is not None and self._transactions.phase is TransactionPhase.OPEN:
                with contextlib.suppress(TransactionError, ClientNetworkError):
                    await self.abort_transaction()
            await self.flush()
        self._is_closed = True
        self._buffer.fail_all(ClientClosedError("the producer is closed"))
        await self._announce_progress()
        await self._scope.close()

    def _adopt_identity(self) -> None:
        """Go on with the identity of the next transaction; another epoch numbers its records anew."""
        identity = self._transactions_in_use().identity
        if identity != self._identity:
            self._identity = identity
            self._queues.clear()

    def _append(self, partition: TopicPartition, record: Record, size: int) -> asyncio.Future[RecordMetadata]:
        delivery, is_news = self._buffer.append(partition, record, size, self._clock.monotonic_ms())
        if is_news:
            self._wake.set()
        if self._loop_task is None:
            self._loop_task = self._scope.start(self._run())
        return delivery

    async def _wait_for_room(self, size: int) -> None:
        if not self._buffer.has_room(size):
            async with self._progress:
                await self._progress.wait_for(lambda: self._is_closed or self._buffer.has_room(size))
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise ClientClosedError("the producer is closed")

    async def _run(self) -> None:
        """Send what is ready, then sleep until a record comes, a request ends, or a batch is due."""
        while True:
            self._wake.clear()
            now_ms = self._clock.monotonic_ms()
            await self._expire(now_ms)
            due_ms = self._send_ready(now_ms)
            try:
                async with asyncio.timeout(None if due_ms is None else max(due_ms - now_ms, 1) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _send_ready(self, now_ms: int) -> int | None:
        """Start requests for ready batches; return when to look again, None for not before something happens."""
        by_node: defaultdict[int, list[PartitionQueue]] = defaultdict(list)
        due_ms: int | None = None
        linger_ms = 0 if self._flushing else self._settings.linger_ms
        for queue in self._queues.values():
            at_ms = queue.ready_at_ms(linger_ms)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                due_ms = at_ms if due_ms is None else min(due_ms, at_ms)
            elif (leader := self._leader_of(queue.partition)) is None:
                self._start_chore("metadata", self._look_up_leaders())
            elif not self._has_identity(queue):
                self._start_chore("identity", self._allocate_identity())
            elif self._transactions is not None and not self._transactions.holds(queue.partition):
                self._start_chore("partitions", self._add_partitions(self._transactions))
            elif queue.may_go_to(leader):
                queue.flight_node = leader
                by_node[leader].append(queue)
        for node_id, queues in by_node.items():
            self._send_to(node_id, queues)
        return due_ms

    def _send_to(self, node_id: int, queues: list[PartitionQueue]) -> None:
        while queues and self._in_flight[node_id] < self._settings.max_in_flight:
            batches: list[ProducerBatch] = []
            room = self._settings.max_request_bytes
            for queue in queues:
                if batches and queue.waiting[0].size_bytes > room:
                    continue
                room -= queue.waiting[0].size_bytes
                batches.append(queue.take(self._settings.codec, self._settings.level))
            self._in_flight[node_id] += 1
            self._scope.start(self._deliver(node_id, batches))
            linger_ms = 0 if self._flushing else self._settings.linger_ms
            now_ms = self._clock.monotonic_ms()
            queues = [
                queue
                for queue in queues
                if (at := queue.ready_at_ms(linger_ms)) is not None and at <= now_ms and queue.may_go_to(node_id)
            ]

    async def _deliver(self, node_id: int, batches: list[ProducerBatch]) -> None:
        try:
            outcomes = await self._request(node_id, batches)
        except CrabkaError as error:
            outcomes = {batch.partition: PartitionOutcome.of_failure(error) for batch in batches}
        finally:
            self._in_flight[node_id] -= 1
        missing = PartitionOutcome.of_failure(ClientNetworkError("the broker did not answer for the partition"))
        for batch in batches:
            self._settle(batch, outcomes.get(batch.partition, missing))
        await self._announce_progress()

    async def _request(self, node_id: int, batches: list[ProducerBatch]) -> dict[TopicPartition, PartitionOutcome]:
        connection = await self._cluster.connection(node_id)
        topic_ids = {
            topic: self._cluster.view.topics[topic].topic_id
            for topic in {batch.partition.topic for batch in batches}
            if topic in self._cluster.view.topics
        }
        build = self._produce_request(batches, topic_ids)
        if self._settings.acks == 0:
            await connection.send_without_response(ApiKey.PRODUCE, build.body, max_version=build.max_version)
            return {batch.partition: PartitionOutcome.of_success(-1) for batch in batches}
        # The broker may use the whole timeout to replicate; the answer needs some time on top.
        response = await connection.request(
            ApiKey.PRODUCE, build.body, self._settings.request_timeout_ms + 5_000, max_version=build.max_version
        )
        return read_outcomes(response, {topic_id: topic for topic, topic_id in topic_ids.items()})

    def _produce_request(self, batches: list[ProducerBatch], topic_ids: dict[str, uuid.UUID]) -> ProduceRequest:
        timeout_ms, transactions = self._settings.request_timeout_ms, self._transactions
        if transactions is None:
            return produce_request(batches, self._settings.acks, timeout_ms, topic_ids)
        build = produce_request(batches, self._settings.acks, timeout_ms, topic_ids, transactions.transactional_id)
        limits = [limit for limit in (build.max_version, transactions.max_produce_version) if limit is not None]
        return ProduceRequest(build.body, min(limits, default=None))

    def _settle(self, batch: ProducerBatch, outcome: PartitionOutcome) -> None:
        if batch.is_settled:
            # The producer failed or was closed meanwhile and has given everything up.
            return
        queue = self._queues[batch.partition]
        now_ms = self._clock.monotonic_ms()
        has_older = any(other.flight_number < batch.flight_number for other in (*queue.in_flight, *queue.to_retry))
        verdict = judge(outcome, follows_unsettled=has_older or queue.has_gap)
        if self._transactions is not None and verdict is not Verdict.DELIVERED:
            is_hopeless = verdict is Verdict.RETRY_WITH_NEW_IDENTITY or not self._transactions.is_writable
            verdict = Verdict.LOST if is_hopeless else verdict
        if outcome.is_stale_metadata:
            self._cluster.invalidate(batch.partition.topic)
        if verdict is Verdict.DELIVERED:
            queue.settle(batch)
            self._buffer.release(batch)
            batch.succeed(outcome.base_offset, outcome.log_append_time_ms)
        elif verdict is Verdict.RETRY and now_ms < batch.deadline_ms:
            queue.settle(batch, retry=True)
        elif verdict is Verdict.RETRY_WITH_NEW_IDENTITY and now_ms < batch.deadline_ms:
            queue.settle(batch, retry=True, lost=True)
        else:
            queue.settle(batch, lost=True)
            self._buffer.release(batch)
            batch.fail(outcome.error or RequestTimeoutError(f"delivery to {batch.partition} timed out"))
            self._spoil(batch, outcome.error_code)
        self._resume(queue, now_ms)

    def _resume(self, queue: PartitionQueue, now_ms: int) -> None:
        needs_identity = queue.resume(now_ms + self._cluster.backoff().next_ms())
        if needs_identity and self._settings.idempotent and self._transactions is None:
            self._identity = None

    def _spoil(self, batch: ProducerBatch, code: ErrorCode) -> None:
        """A lost batch spoils its transaction: nothing more of it is sent."""
        if self._transactions is None:
            return
        error = transaction_error(ApiKey.PRODUCE, code, f"a batch for {batch.partition} is lost: {code.name}")
        if batch.base_sequence != NO_SEQUENCE:
            self._transactions.lose_sequences()
        self._transactions.spoil(error)
        self._drop_unsent(error)

    async def _drop_all(self, error: Exception) -> None:
        self._drop_unsent(error)
        await self._announce_progress()
        adding = self._chores.get("partitions")
        if adding is not None:
            await adding
        async with self._progress:
            await self._progress.wait_for(lambda: not any(queue.in_flight for queue in self._queues.values()))

    def _drop_unsent(self, error: Exception) -> None:
        for queue in self._queues.values():
            for batch in queue.drop_unsent():
                if self._transactions is not None and batch.base_sequence != NO_SEQUENCE:
                    self._transactions.lose_sequences()
                self._buffer.release(batch)
                batch.fail(error)
        self._wake.set()

    async def _expire(self, now_ms: int) -> None:
        expired: list[ProducerBatch] = []
        for queue in self._queues.values():
            late = queue.expired(now_ms)
            expired += late
            if late:
                self._resume(queue, now_ms)
        for batch in expired:
            self._buffer.release(batch)
            batch.fail(RequestTimeoutError(f"a record for {batch.partition} was not delivered in time"))
            self._spoil(batch, ErrorCode.request_timed_out)
        if expired:
            await self._announce_progress()

    def _leader_of(self, partition: TopicPartition) -> int | None:
        topic = self._cluster.view.topics.get(partition.topic)
        found = topic.partitions.get(partition.partition) if topic else None
        return found.leader if found and found.leader >= 0 else None

    def _has_identity(self, queue: PartitionQueue) -> bool:
        if queue.identity is None:
            queue.identity = self._identity
        return queue.identity is not None

    def _start_chore(self, name: str, coroutine: Any) -> None:
        running = self._chores.get(name)
        if running is None or running.done():
            self._chores[name] = self._scope.start(coroutine)
        else:
            coroutine.close()

    async def _look_up_leaders(self) -> None:
        topics = {
            q.partition.topic for q in self._queues.values() if q.waiting and self._leader_of(q.partition) is None
        }
        try:
            await self._cluster.refresh(sorted(topics))
        except AuthenticationError as error:
            await self._give_up(error)
            return
        except CrabkaError:
            pass
        else:
            if all(self._leader_of(q.partition) is not None for q in self._queues.values() if q.waiting):
                self._wake.set()
                return
        # Still no leader, or nobody to ask: batches wait until their delivery time is over.
        await asyncio.sleep(self._cluster.settings.retry_backoff_max_ms / 1000)
        self._wake.set()

    async def _add_partitions(self, transactions: TransactionManager) -> None:
        try:
            await transactions.add_pending()
        except CrabkaError as error:
            failure = error
            if not isinstance(error, TransactionError):
                failure = FatalTransactionError(ErrorCode.unknown_server_error, str(error))
                transactions.spoil(failure)
            self._drop_unsent(failure)
        await self._announce_progress()

    async def _allocate_identity(self) -> None:
        def build(types: MessageTypes) -> Any:
            return types.message(transactional_id=None, transaction_timeout=0, producer_id=-1, producer_epoch=-1)

        try:
            response = await self._cluster.request_any(ApiKey.INIT_PRODUCER_ID, build)
        except ClientNetworkError:
            await asyncio.sleep(self._cluster.backoff().next_ms() / 1000)
        except AuthenticationError as error:
            await self._give_up(error)
        else:
            code = response.error_code
            if code is ErrorCode.none:
                self._identity = ProducerIdentity(response.producer_id, response.producer_epoch)
            elif code.retriable:
                await asyncio.sleep(self._cluster.backoff().next_ms() / 1000)
            else:
                await self._give_up(OperationError(code, "the cluster gave no producer id"))
        await self._announce_progress()

    async def _give_up(self, failure: Exception) -> None:
        """Fail all that waits, and whatever is sent from now on."""
        self._failure = failure
        self._buffer.fail_all(failure)
        await self._announce_progress()

    def _on_failure(self, failure: BaseException) -> None:
        """A task failed for a reason that nobody foresaw: whoever waits for a record would wait for ever."""
        if isinstance(failure, Exception):
            self._scope.start(self._give_up(failure))

    async def _announce_progress(self) -> None:
        self._wake.set()
        async with self._progress:
            self._progress.notify_all()
