"""The sender of a producer: one loop that sends what is ready, a batch of each partition per request.

A few requests per broker are in flight at a time. `delivery` decides what happens to a batch that failed, `accumulator`
the order of retries, and `record_buffer` holds the records meanwhile. A lost batch fails the transaction that it
belongs to, and nothing more of it is sent.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from typing import Any

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.errors import (
    AuthenticationError,
    ClientClosedError,
    ClientNetworkError,
    FatalTransactionError,
    RequestTimeoutError,
    TransactionError,
)
from crabka.clients.producer.accumulator import (
    ANONYMOUS,
    PartitionQueue,
    ProducerBatch,
    ProducerIdentity,
    RecordMetadata,
)
from crabka.clients.producer.delivery import (
    DeliveryResult,
    PartitionOutcome,
    ProduceRequest,
    delivery_result,
    produce_request,
    read_outcomes,
)
from crabka.clients.producer.record_buffer import RecordBuffer
from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.producer.transaction_outcomes import transaction_error
from crabka.clients.producer.transactions import TransactionManager
from crabka.errors import CrabkaError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import NO_SEQUENCE
from crabka.records.record import Record
from crabka.runtime.task_scope import TaskScope


class Sender:
    """Delivers the records of one producer."""

    def __init__(
        self, cluster: Cluster, settings: ProducerSettings, transactions: TransactionManager | None = None
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._settings = settings
        self._transactions = transactions
        self.buffer = RecordBuffer(settings, cluster.runtime.rng)
        self._queues = self.buffer.queues
        self._identity: ProducerIdentity | None = None if settings.idempotent else ANONYMOUS
        self._in_flight: defaultdict[int, int] = defaultdict(int)
        self._flushing = 0
        self._scope = TaskScope(on_failure=self._on_failure)
        self._wake = asyncio.Event()
        self._progress = asyncio.Condition()
        self._chores: dict[str, asyncio.Task[Any]] = {}
        self._loop_task: asyncio.Task[Any] | None = None
        self._failure: Exception | None = None
        self._is_closed = False

    async def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed."""
        batches = self.buffer.unsettled()
        self._flushing += 1
        self._wake.set()
        try:
            async with self._progress:
                await self._progress.wait_for(lambda: all(batch.is_settled for batch in batches))
        finally:
            self._flushing -= 1

    async def close(self) -> None:
        """Fail what is left, and stop. Closing twice is allowed."""
        self._is_closed = True
        self.buffer.fail_all(ClientClosedError("the producer is closed"))
        await self._announce_progress()
        await self._scope.close()

    def adopt_identity(self, identity: ProducerIdentity | None) -> None:
        """Continue with the identity of the next transaction; a new epoch restarts the sequences."""
        if identity != self._identity:
            self._identity = identity
            self._queues.clear()

    def append(self, partition: TopicPartition, record: Record, size: int) -> asyncio.Future[RecordMetadata]:
        """Queue a record; return a future for its offset."""
        delivery, is_news = self.buffer.append(partition, record, size, self._clock.monotonic_ms())
        if is_news:
            self._wake.set()
        if self._loop_task is None:
            self._loop_task = self._scope.start(self._run())
        return delivery

    async def wait_for_room(self, size: int) -> None:
        """Wait until the buffer has room. Raises ClientClosedError, or the error that ended the producer."""
        if not self.buffer.has_room(size):
            async with self._progress:
                await self._progress.wait_for(lambda: self._is_closed or self.buffer.has_room(size))
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise ClientClosedError("the producer is closed")

    async def _run(self) -> None:
        """Send what is ready, then wait for a record, the end of a request, or a batch that is due."""
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
        """Start requests for ready batches; return when the next one is due, None if none is."""
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
        # The broker may use the whole timeout to replicate, and the response needs some more time.
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
            # The producer failed or was closed meanwhile, which failed all batches.
            return
        queue = self._queues[batch.partition]
        now_ms = self._clock.monotonic_ms()
        has_older = any(other.flight_number < batch.flight_number for other in (*queue.in_flight, *queue.to_retry))
        result = delivery_result(outcome, follows_unsettled=has_older or queue.has_gap)
        if self._transactions is not None and result is not DeliveryResult.DELIVERED:
            is_hopeless = result is DeliveryResult.RETRY_WITH_NEW_IDENTITY or not self._transactions.is_writable
            result = DeliveryResult.LOST if is_hopeless else result
        if outcome.is_stale_metadata:
            self._cluster.invalidate(batch.partition.topic)
        if result is DeliveryResult.DELIVERED:
            queue.settle(batch)
            self.buffer.release(batch)
            batch.succeed(outcome.base_offset, outcome.log_append_time_ms)
        elif result is DeliveryResult.RETRY and now_ms < batch.deadline_ms:
            queue.settle(batch, retry=True)
        elif result is DeliveryResult.RETRY_WITH_NEW_IDENTITY and now_ms < batch.deadline_ms:
            queue.settle(batch, retry=True, lost=True)
        else:
            queue.settle(batch, lost=True)
            self.buffer.release(batch)
            batch.fail(outcome.error or RequestTimeoutError(f"delivery to {batch.partition} timed out"))
            self._fail_transaction(batch, outcome.error_code)
        self._resume(queue, now_ms)

    def _resume(self, queue: PartitionQueue, now_ms: int) -> None:
        needs_identity = queue.resume(now_ms + self._cluster.backoff().next_ms())
        if needs_identity and self._settings.idempotent and self._transactions is None:
            self._identity = None

    def _fail_transaction(self, batch: ProducerBatch, code: ErrorCode) -> None:
        """A lost batch fails its transaction: nothing more of it is sent."""
        if self._transactions is None:
            return
        error = transaction_error(ApiKey.PRODUCE, code, f"a batch for {batch.partition} is lost: {code.name}")
        if batch.base_sequence != NO_SEQUENCE:
            self._transactions.lose_sequences()
        self._transactions.fail(error)
        self._drop_unsent(error)

    async def drop_all(self, error: Exception) -> None:
        """Fail what is not sent yet, and wait until nothing is in flight."""
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
                self.buffer.release(batch)
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
            self.buffer.release(batch)
            batch.fail(RequestTimeoutError(f"a record for {batch.partition} was not delivered in time"))
            self._fail_transaction(batch, ErrorCode.request_timed_out)
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
        # Still no leader, or no broker answers: batches wait until their delivery timeout.
        await asyncio.sleep(self._cluster.settings.retry_backoff_max_ms / 1000)
        self._wake.set()

    async def _add_partitions(self, transactions: TransactionManager) -> None:
        try:
            await transactions.add_pending()
        except CrabkaError as error:
            failure = error
            if not isinstance(error, TransactionError):
                failure = FatalTransactionError(ErrorCode.unknown_server_error, str(error))
                transactions.fail(failure)
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
        """Fail all records that wait, and all that are sent from now on."""
        self._failure = failure
        self.buffer.fail_all(failure)
        await self._announce_progress()

    def _on_failure(self, failure: BaseException) -> None:
        """A task failed unexpectedly: fail all records, whose futures would never complete otherwise."""
        if isinstance(failure, Exception):
            self._scope.start(self._give_up(failure))

    async def _announce_progress(self) -> None:
        self._wake.set()
        async with self._progress:
            self._progress.notify_all()
