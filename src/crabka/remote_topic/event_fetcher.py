"""Reads partitions of the metadata topic from their leaders, until `stop`.

One fetch per leader is in flight at a time, on a connection of its own, for all partitions that it leads: few
connections, and no group. A failed fetch is retried after a pause, at the leader of that moment. Events are delivered
in portions, so that other tasks get their turn on the loop.

Each fetch names the leader epoch of the last event before its offset, and the leader returns whether its log has that
event (KIP-595). If not, there was an unclean election, and the partition is read again from the first event. After
each election the state counts only once the new leader has responded.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from crabka.clients.cluster.backoff import Backoff
from crabka.clients.cluster.cluster import Cluster, means_stale_metadata
from crabka.clients.cluster.metadata import TopicMetadata
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.messages import FetchAnswer, FetchTarget, fetch_request, read_answers
from crabka.clients.fetcher.offsets import EARLIEST, LATEST, list_offsets
from crabka.errors import CrabkaError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.remote_topic.event_batches import portions
from crabka.remote_topic.event_log import EventBatch, EventSink
from crabka.runtime.task_scope import TaskScope

PORTION: Final = 200
FETCH: Final = FetcherSettings(max_bytes=4 * 1024 * 1024, partition_max_bytes=512 * 1024)
# For a place that a leader has to confirm: it answers at once.
CHECK: Final = replace(FETCH, max_wait_ms=0)

OnFailure: TypeAlias = Callable[[BaseException], None]

_CHANNEL: Final = "remote-log-metadata"
logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Reading:
    """Where a partition is."""

    offset: int
    # Of what stands before the offset, -1 if it is not known.
    last_epoch: int
    backoff: Backoff
    # The epoch of the leader that has confirmed the place; None before any has.
    confirmed_by: int | None = None
    retry_at_ms: int = 0
    # The epoch of the leader that was asked last.
    asked_epoch: int = -1

    def needs_check(self, leader_epoch: int) -> bool:
        """Return whether the leader of an epoch may have another history than the one that was read."""
        return bool(self.offset) and self.confirmed_by != leader_epoch


class EventFetcher:
    """Delivers the events of the topic from given offsets on. The caller runs `run` and then calls `close`.

    `on_topic` receives the topic's metadata before each round of fetches, and returns whether it is still the topic of
    the offsets. `on_failure` receives a bug; without it `close` raises it.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        sink: EventSink,
        on_topic: Callable[[TopicMetadata], bool],
        on_failure: OnFailure | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._sink = sink
        self._on_topic = on_topic
        self._readings: dict[int, _Reading] = {}
        self._busy_nodes: set[int] = set()
        self._scope = TaskScope(on_failure)
        self._changed = asyncio.Event()

    def consume(self, partition: int, offset: int, leader_epoch: int = -1) -> None:
        """Read a partition from an offset on; the event before it is of a leader epoch, -1 if it is not known."""
        self._readings[partition] = _Reading(offset, leader_epoch, self._cluster.backoff())
        self._changed.set()

    def stop(self, partition: int) -> None:
        """Read a partition no more; what is on its way is dropped."""
        self._readings.pop(partition, None)

    async def close(self) -> None:
        """Stop all that is under way."""
        self._readings.clear()
        await self._scope.close()

    async def run(self) -> None:
        """Start a fetch at each leader where none is in flight, until cancelled."""
        while True:
            self._changed.clear()
            pause_ms = await self._start_fetches()
            try:
                async with asyncio.timeout(None if pause_ms is None else pause_ms / 1000):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _start_fetches(self) -> int | None:
        """Fetch from idle leaders; return after how long to look again if nothing happens before."""
        now_ms = self._cluster.runtime.clock.monotonic_ms()
        due = [partition for partition, reading in self._readings.items() if reading.retry_at_ms <= now_ms]
        if due:
            try:
                topic = await self._cluster.topic(self._topic, timeout_ms=0)
            except CrabkaError as error:
                self._pause(due, f"the leaders are not known: {error}")
            else:
                if self._on_topic(topic):
                    self._start_by_leader(topic, due)
        waits = [reading.retry_at_ms - now_ms for reading in self._readings.values() if reading.retry_at_ms > now_ms]
        return min(waits, default=None)

    def _start_by_leader(self, topic: TopicMetadata, due: list[int]) -> None:
        by_leader: dict[int, list[FetchTarget]] = {}
        for number in due:
            reading, partition = self._readings.get(number), topic.partitions.get(number)
            if reading is None:
                continue
            if partition is None or partition.leader < 0:
                self._cluster.invalidate(self._topic)
                self._pause([number], "it has no leader")
            elif partition.leader not in self._busy_nodes:
                place = TopicPartition(self._topic, number)
                target = FetchTarget(place, reading.offset, partition.leader_epoch, reading.last_epoch)
                by_leader.setdefault(partition.leader, []).append(target)
                reading.asked_epoch = partition.leader_epoch
                if reading.confirmed_by is not None and reading.needs_check(partition.leader_epoch):
                    reading.confirmed_by = None
                    self._sink.suspend([number])
        for node_id, targets in by_leader.items():
            self._busy_nodes.add(node_id)
            self._scope.start(self._fetch(node_id, targets, topic.topic_id))

    async def _fetch(self, node_id: int, targets: list[FetchTarget], topic_id: uuid.UUID) -> None:
        try:
            answers = await self._request(node_id, targets, topic_id)
            for target in targets:
                await self._accept(target, answers.get(target.partition))
        except CrabkaError as error:
            # The broker may be gone; the next fetch goes to the present leader.
            self._cluster.invalidate(self._topic)
            self._pause([target.partition.partition for target in targets], str(error))
        finally:
            self._busy_nodes.discard(node_id)
            self._changed.set()

    async def _request(
        self, node_id: int, targets: list[FetchTarget], topic_id: uuid.UUID
    ) -> dict[TopicPartition, FetchAnswer]:
        connection = await self._cluster.connection(node_id, _CHANNEL)
        ids = {self._topic: topic_id}
        request = fetch_request(targets, CHECK if self._has_unchecked(targets) else FETCH, ids)
        timeout_ms = FETCH.max_wait_ms + FETCH.request_timeout_ms
        response = await connection.request(ApiKey.FETCH, request.body, timeout_ms, max_version=request.max_version)
        if response.error_code is not ErrorCode.none:
            raise OperationError(response.error_code, f"fetch from broker {node_id}: {response.error_code.name}")
        return read_answers(response, ids)

    def _has_unchecked(self, targets: list[FetchTarget]) -> bool:
        return any(
            reading.needs_check(target.leader_epoch)
            for target in targets
            if (reading := self._readings.get(target.partition.partition)) is not None
        )

    async def _accept(self, target: FetchTarget, answer: FetchAnswer | None) -> None:
        number = target.partition.partition
        reading = self._readings.get(number)
        # Since the request the partition may have been stopped, started elsewhere, or read from a new leader.
        if reading is None or (reading.offset, reading.last_epoch) != (target.offset, target.last_fetched_epoch):
            return
        if target.leader_epoch != reading.asked_epoch:
            # The response of a leader that was replaced; the next one is asked for the same place.
            return
        try:
            if answer is None:
                self._pause([number], "the response lacks it")
            elif answer.error_code is ErrorCode.offset_out_of_range:
                await self._find_place(number, reading)
            elif answer.error_code is not ErrorCode.none:
                if means_stale_metadata(answer.error_code):
                    self._cluster.invalidate(self._topic)
                self._pause([number], answer.error_code.name)
            elif answer.diverging is not None:
                logger.error(
                    "metadata partition %d has another history than the one that was read to %d: it diverges at %d",
                    number,
                    reading.offset,
                    answer.diverging.end_offset,
                )
                self._start_over(number, reading, 0)
            else:
                if reading.needs_check(target.leader_epoch):
                    self._sink.deliver(EventBatch(number, [], reading.offset, reading.last_epoch))
                reading.confirmed_by = target.leader_epoch
                await self._hand_over(number, reading, answer.records)
                reading.backoff.reset()
        # A corrupt batch, or a leader that does not return its offsets: only this partition waits.
        except CrabkaError as error:
            logger.warning("metadata partition %d cannot be read at %d: %s", number, reading.offset, error)
            self._pause([number], str(error))

    async def _hand_over(self, number: int, reading: _Reading, data: bytes) -> None:
        start = reading.offset
        for records, next_offset, epoch in portions(data, reading.offset, PORTION):
            self._sink.deliver(EventBatch(number, records, next_offset, epoch))
            expected = reading.offset = next_offset
            reading.last_epoch = epoch
            await asyncio.sleep(0)
            if self._readings.get(number) is not reading or reading.offset != expected:
                return
        if data and reading.offset == start:
            self._pause([number], "the answer has no whole batch")

    async def _find_place(self, number: int, reading: _Reading) -> None:
        """Continue at the first event that exists, or start over if the log ends before the present offset."""
        partition = TopicPartition(self._topic, number)
        first = (await list_offsets(self._cluster, {partition: EARLIEST}))[partition].offset
        end = (await list_offsets(self._cluster, {partition: LATEST}))[partition].offset
        if self._readings.get(number) is not reading:
            return
        if reading.offset > end:
            logger.error("metadata partition %d ends at %d, but had events up to %d", number, end, reading.offset)
            self._start_over(number, reading, first)
        elif reading.offset < first:
            logger.error("metadata partition %d lost its events from %d to %d", number, reading.offset, first)
            reading.offset, reading.last_epoch = first, -1
        elif reading.last_epoch >= 0:
            # The leader knows no epoch of what was read, or its log has grown since it responded.
            logger.error("metadata partition %d cannot confirm what was read to %d", number, reading.offset)
            self._start_over(number, reading, first)
        else:
            self._pause([number], "its offset was reported as out of range and is not")

    def _start_over(self, number: int, reading: _Reading, offset: int) -> None:
        self._sink.start_over([number])
        reading.offset, reading.last_epoch, reading.confirmed_by = offset, -1, None

    def _pause(self, numbers: Iterable[int], reason: str) -> None:
        now_ms = self._cluster.runtime.clock.monotonic_ms()
        for number in numbers:
            reading = self._readings.get(number)
            if reading is not None:
                reading.retry_at_ms = now_ms + reading.backoff.next_ms()
                logger.debug("metadata partition %d is retried later: %s", number, reason)
