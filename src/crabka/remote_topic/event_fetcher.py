"""Reads partitions of the metadata topic from their leaders, for ever.

One fetch per leader is under way at a time, on a connection of its own, for all partitions that it leads: few
connections, and no group. What fails is asked for again after a pause, from whoever leads by then; nothing ends a
partition but `stop`. Events are handed over in portions, so that others get their turn on the loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from crabka._kio import ErrorCode
from crabka.clients.backoff import Backoff
from crabka.clients.cluster import Cluster, means_stale_metadata
from crabka.clients.fetch_messages import FetchAnswer, FetchTarget, fetch_request, read_answers
from crabka.clients.fetcher import FetcherSettings
from crabka.clients.metadata import TopicMetadata
from crabka.clients.offsets import EARLIEST, LATEST, list_offsets
from crabka.errors import CrabkaError, OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.remote_topic.event_batches import portions
from crabka.remote_topic.event_log import EventBatch, EventSink
from crabka.runtime.task_scope import TaskScope

PORTION: Final = 200
FETCH: Final = FetcherSettings(max_bytes=4 * 1024 * 1024, partition_max_bytes=512 * 1024)

OnFailure: TypeAlias = Callable[[BaseException], None]

_CHANNEL: Final = "remote-log-metadata"
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Reading:
    """Where a partition is."""

    offset: int
    backoff: Backoff
    retry_at_ms: int = 0


class EventFetcher:
    """Delivers what stands in the topic behind given offsets. The caller runs `run` and then calls `close`.

    `on_topic` hears of the topic's metadata before each round of fetches, and returns whether it is still the one that
    the offsets belong to. `on_failure` hears of a bug; without it `close` raises what happened.
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

    def consume(self, partition: int, offset: int) -> None:
        """Read a partition from an offset on."""
        self._readings[partition] = _Reading(offset, self._cluster.backoff())
        self._changed.set()

    def stop(self, partition: int) -> None:
        """Read a partition no more; what is on its way is dropped."""
        self._readings.pop(partition, None)

    async def close(self) -> None:
        """Stop all that is under way."""
        self._readings.clear()
        await self._scope.close()

    async def run(self) -> None:
        """Start a fetch at each leader where none is under way, again and again."""
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
                topic = await self._cluster.topic(self._topic)
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
                target = FetchTarget(TopicPartition(self._topic, number), reading.offset, partition.leader_epoch)
                by_leader.setdefault(partition.leader, []).append(target)
        for node_id, targets in by_leader.items():
            self._busy_nodes.add(node_id)
            self._scope.start(self._fetch(node_id, targets, topic.topic_id))

    async def _fetch(self, node_id: int, targets: list[FetchTarget], topic_id: uuid.UUID) -> None:
        try:
            answers = await self._request(node_id, targets, topic_id)
            for target in targets:
                await self._accept(target, answers.get(target.partition))
        except CrabkaError as error:
            # Perhaps the broker is gone; whoever leads now is asked next.
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
        request = fetch_request(targets, FETCH, ids)
        timeout_ms = FETCH.max_wait_ms + FETCH.request_timeout_ms
        response = await connection.request(ApiKey.FETCH, request.body, timeout_ms, max_version=request.max_version)
        if response.error_code is not ErrorCode.none:
            raise OperationError(response.error_code, f"fetch from broker {node_id}: {response.error_code.name}")
        return read_answers(response, ids)

    async def _accept(self, target: FetchTarget, answer: FetchAnswer | None) -> None:
        number = target.partition.partition
        reading = self._readings.get(number)
        # Meanwhile the partition may have been stopped, begun elsewhere, or read from a new leader.
        if reading is None or reading.offset != target.offset:
            return
        try:
            if answer is None:
                self._pause([number], "the broker left it out of its answer")
            elif answer.error_code is ErrorCode.offset_out_of_range:
                await self._find_place(number, reading)
            elif answer.error_code is not ErrorCode.none:
                if means_stale_metadata(answer.error_code):
                    self._cluster.invalidate(self._topic)
                self._pause([number], answer.error_code.name)
            else:
                await self._hand_over(number, reading, answer.records)
                reading.backoff.reset()
        # A batch that is corrupt, or a leader that does not tell its offsets: this partition waits, others do not.
        except CrabkaError as error:
            _log.warning("metadata partition %d cannot be read at %d: %s", number, reading.offset, error)
            self._pause([number], str(error))

    async def _hand_over(self, number: int, reading: _Reading, data: bytes) -> None:
        start = reading.offset
        for records, next_offset in portions(data, reading.offset, PORTION):
            self._sink.deliver(EventBatch(number, records, next_offset))
            expected = reading.offset = next_offset
            await asyncio.sleep(0)
            if self._readings.get(number) is not reading or reading.offset != expected:
                return
        if data and reading.offset == start:
            self._pause([number], "the answer has no whole batch")

    async def _find_place(self, number: int, reading: _Reading) -> None:
        """Go on with the first event that is there; all over again if the log does not reach to where we were."""
        partition = TopicPartition(self._topic, number)
        first = (await list_offsets(self._cluster, {partition: EARLIEST}))[partition].offset
        end = (await list_offsets(self._cluster, {partition: LATEST}))[partition].offset
        if self._readings.get(number) is not reading:
            return
        if reading.offset > end:
            _log.error("metadata partition %d ends at %d, but had events up to %d", number, end, reading.offset)
            self._sink.start_over([number])
            reading.offset = first
        elif reading.offset < first:
            _log.error("metadata partition %d lost its events from %d to %d", number, reading.offset, first)
            reading.offset = first
        else:
            self._pause([number], "its offset is out of range and is not")

    def _pause(self, numbers: Iterable[int], reason: str) -> None:
        now_ms = self._cluster.runtime.clock.monotonic_ms()
        for number in numbers:
            reading = self._readings.get(number)
            if reading is not None:
                reading.retry_at_ms = now_ms + reading.backoff.next_ms()
                _log.debug("metadata partition %d is asked for again later: %s", number, reason)
