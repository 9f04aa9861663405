"""The fetcher: reads assigned partitions from given positions, without groups.

One fetch per leader is in flight at a time, for the partitions without buffered records, so the memory is bounded by
`max_bytes` per broker. Fetches use a connection of their own and no fetch session.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crabka.clients.cluster.cluster import Cluster, means_stale_metadata
from crabka.clients.cluster.leader_requests import Answers
from crabka.clients.errors import ClientClosedError, ClientNetworkError
from crabka.clients.fetcher.isolation import visible_batches
from crabka.clients.fetcher.messages import FetchAnswer, FetchTarget, fetch_request, read_answers
from crabka.clients.fetcher.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets, list_offsets_once
from crabka.errors import CrabkaError, OperationError, WireError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.record import DEFAULT_MAX_DECOMPRESSED_BYTES, Headers
from crabka.runtime.task_scope import TaskScope

_FETCH_CHANNEL = "fetch"


class OffsetReset(enum.Enum):
    """The position after one that is unknown or out of range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """Limits of a fetcher, and its isolation."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    request_timeout_ms: int = 30_000
    read_committed: bool = False
    offset_reset: OffsetReset = OffsetReset.LATEST
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES


class FetchedRecord(NamedTuple):
    """A record with its position."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int


@dataclass(slots=True)
class _Assignment:
    """The position and the buffered records of a partition."""

    # The offset of the next record that poll returns; None until the reset policy found one.
    position: int | None
    # The offset of the next fetch; ahead of the position by the buffered records.
    fetch_offset: int | None = None
    buffered: deque[FetchedRecord] = field(default_factory=deque)
    high_watermark: int = -1
    log_start_offset: int = -1
    retry_at_ms: int = 0


class Fetcher:
    """Reads assigned partitions. Use as an async context manager or call `close`; the cluster stays open."""

    def __init__(self, cluster: Cluster, settings: FetcherSettings | None = None) -> None:
        self._cluster = cluster
        self._settings = settings or FetcherSettings()
        self._assignments: dict[TopicPartition, _Assignment] = {}
        self._fetches: dict[int, asyncio.Task[Any]] = {}
        self._prefetch: asyncio.Task[Any] | None = None
        self._scope = TaskScope()
        self._arrived = asyncio.Event()
        self._failure: CrabkaError | None = None
        self._is_closed = False

    async def __aenter__(self) -> Fetcher:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop all fetches and drop buffered records."""
        self._is_closed = True
        self._arrived.set()
        self._assignments.clear()
        await self._scope.close()

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int | None]) -> None:
        """Replace the assignment; a mapping gives start offsets, without one the reset policy decides."""
        offsets = partitions if isinstance(partitions, Mapping) else dict.fromkeys(partitions)
        self._assignments = {partition: _Assignment(offset, offset) for partition, offset in offsets.items()}

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return list(self._assignments)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset; buffered records of the partition are dropped. Raises KeyError if it is not assigned."""
        if partition not in self._assignments:
            raise KeyError(f"partition {partition} is not assigned")
        self._assignments[partition] = _Assignment(offset, offset)

    async def seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Go to the first offset at or after a timestamp, or to `offsets.EARLIEST` or `LATEST`; to the end if none."""
        wanted = list(partitions)
        found = await self._list_offsets(wanted, timestamp)
        beyond = [partition for partition in wanted if found[partition] < 0]
        found |= await self._list_offsets(beyond, LATEST)
        for partition in wanted:
            self.seek(partition, found[partition])

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record, None while it is not known."""
        return self._assignments[partition].position

    def high_watermark(self, partition: TopicPartition) -> int:
        """Return the high watermark of the last fetch, -1 before the first."""
        return self._assignments[partition].high_watermark

    async def poll(self, timeout_ms: int = 1_000, max_records: int = 500) -> list[FetchedRecord]:
        """Return up to `max_records` as soon as there are some, none after the timeout.

        Raises OperationError (offset_out_of_range without a reset policy, topic errors) and CorruptBatchError.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self._is_due():
                    self._arrived.clear()
                    pause_ms = await self._start_fetches()
                    if not self._is_due():
                        await self._wait_for_arrival(pause_ms)
        except TimeoutError:
            pass
        # From here on nothing awaits: records that leave the buffer always reach the caller.
        records = self._take(max_records)
        if records and (self._prefetch is None or self._prefetch.done()):
            self._prefetch = self._scope.start(self._fetch_ahead())
        return records

    def _is_due(self) -> bool:
        """Return whether a poll has a result."""
        return self._is_closed or self._failure is not None or any(a.buffered for a in self._assignments.values())

    async def _fetch_ahead(self) -> None:
        """Fetch for the next poll while the caller works."""
        try:
            await self._start_fetches()
        except CrabkaError as error:
            self._failure = error
            self._arrived.set()

    async def _wait_for_arrival(self, pause_ms: int | None) -> None:
        try:
            async with asyncio.timeout(None if pause_ms is None else pause_ms / 1000):
                await self._arrived.wait()
        except TimeoutError:
            return

    def _take(self, max_records: int) -> list[FetchedRecord]:
        if self._is_closed:
            raise ClientClosedError("the fetcher is closed")
        records: list[FetchedRecord] = []
        for partition, assignment in list(self._assignments.items()):
            buffered = assignment.buffered
            if buffered and len(records) < max_records:
                # A partition that returned records goes to the end of the queue, so that it does not starve others.
                self._assignments[partition] = self._assignments.pop(partition)
            while buffered and len(records) < max_records:
                records.append(buffered.popleft())
                assignment.position = records[-1].offset + 1
            if not buffered:
                assignment.position = assignment.fetch_offset
        if not records and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return records

    async def _start_fetches(self) -> int | None:
        """Start a fetch at each idle leader with partitions to fetch; return the pause until the next retry, if any."""
        now_ms = self._cluster.runtime.clock.monotonic_ms()
        hungry = {p: a for p, a in self._assignments.items() if not a.buffered}
        ready = [partition for partition, assignment in hungry.items() if assignment.retry_at_ms <= now_ms]
        await self._reset_positions([p for p in ready if hungry[p].fetch_offset is None])
        targets: dict[int, list[FetchTarget]] = {}
        for partition in ready:
            assignment = hungry[partition]
            leader = await self._leader(partition, assignment)
            if leader is not None and assignment.fetch_offset is not None:
                target = FetchTarget(partition, assignment.fetch_offset, leader[1])
                targets.setdefault(leader[0], []).append(target)
        for node_id, group in targets.items():
            running = self._fetches.get(node_id)
            if running is None or running.done():
                self._fetches[node_id] = self._scope.start(self._fetch(node_id, group))
        waits = [a.retry_at_ms - now_ms for a in hungry.values() if a.retry_at_ms > now_ms]
        return min(waits, default=None)

    async def _leader(self, partition: TopicPartition, assignment: _Assignment) -> tuple[int, int] | None:
        try:
            # Other partitions do not wait for an unknown one.
            found = await self._cluster.partition(partition, timeout_ms=0)
        except (OperationError, ClientNetworkError) as error:
            if isinstance(error, OperationError) and not error.retriable:
                raise
            self._pause(assignment)
            return None
        return found.leader, found.leader_epoch

    async def _reset_positions(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        if self._settings.offset_reset is OffsetReset.NONE:
            raise OperationError(ErrorCode.offset_out_of_range, f"{partitions[0]} has no position and no reset policy")
        timestamp = EARLIEST if self._settings.offset_reset is OffsetReset.EARLIEST else LATEST
        found: Answers[OffsetAndTimestamp] = {}
        with contextlib.suppress(ClientNetworkError):
            found = await list_offsets_once(
                self._cluster,
                dict.fromkeys(partitions, timestamp),
                read_committed=self._settings.read_committed,
                timeout_ms=self._settings.request_timeout_ms,
            )
        for partition in partitions:
            assignment, answer = self._assignments.get(partition), found.get(partition)
            # A seek during the request wins.
            if assignment is None or assignment.fetch_offset is not None:
                continue
            if isinstance(answer, OffsetAndTimestamp):
                assignment.position = assignment.fetch_offset = answer.offset
            elif answer is None or answer.retriable:
                self._pause(assignment)
            else:
                raise answer

    async def _list_offsets(self, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = await list_offsets(
            self._cluster,
            dict.fromkeys(partitions, timestamp),
            read_committed=self._settings.read_committed,
            timeout_ms=self._settings.request_timeout_ms,
        )
        return {partition: result.offset for partition, result in found.items()}

    async def _fetch(self, node_id: int, targets: list[FetchTarget]) -> None:
        try:
            answers = await self._request(node_id, targets)
            for target in targets:
                assignment = self._assignments.get(target.partition)
                answer = answers.get(target.partition)
                # After a seek or a new assignment the answer is outdated.
                if assignment is None or answer is None or assignment.fetch_offset != target.offset:
                    continue
                self._accept(target.partition, assignment, answer)
        except (ClientNetworkError, WireError):
            for target in targets:
                self._cluster.invalidate(target.partition.topic)
                if target.partition in self._assignments:
                    self._pause(self._assignments[target.partition])
        except CrabkaError as error:
            self._failure = error
        finally:
            self._arrived.set()

    async def _request(self, node_id: int, targets: list[FetchTarget]) -> dict[TopicPartition, FetchAnswer]:
        connection = await self._cluster.connection(node_id, _FETCH_CHANNEL)
        topics = self._cluster.view.topics
        ids = {t.partition.topic: topics[t.partition.topic].topic_id for t in targets if t.partition.topic in topics}
        request = fetch_request(targets, self._settings, ids)
        timeout_ms = self._settings.max_wait_ms + self._settings.request_timeout_ms
        response = await connection.request(ApiKey.FETCH, request.body, timeout_ms, max_version=request.max_version)
        if response.error_code is not ErrorCode.none:
            raise OperationError(response.error_code, f"fetch from broker {node_id}: {response.error_code.name}")
        return read_answers(response, ids)

    def _accept(self, partition: TopicPartition, assignment: _Assignment, answer: FetchAnswer) -> None:
        if answer.error_code is ErrorCode.offset_out_of_range:
            assignment.position = assignment.fetch_offset = None
        elif means_stale_metadata(answer.error_code):
            self._cluster.invalidate(partition.topic)
            self._pause(assignment)
        elif answer.error_code is not ErrorCode.none:
            if not answer.error_code.retriable:
                raise OperationError(answer.error_code, f"fetch of {partition}: {answer.error_code.name}")
            self._pause(assignment)
        else:
            self._buffer_records(partition, assignment, answer)

    def _buffer_records(self, partition: TopicPartition, assignment: _Assignment, answer: FetchAnswer) -> None:
        assignment.high_watermark = answer.high_watermark
        assignment.log_start_offset = answer.log_start_offset
        aborted = answer.aborted if self._settings.read_committed else None
        start = assignment.fetch_offset or 0
        for batch in visible_batches(
            answer.records, start, aborted, max_decompressed_bytes=self._settings.max_decompressed_bytes
        ):
            assignment.buffered.extend(
                FetchedRecord(partition.topic, partition.partition, *record, batch.leader_epoch)
                for record in batch.records
            )
            assignment.fetch_offset = max(batch.next_offset, start)

    def _pause(self, assignment: _Assignment) -> None:
        now_ms = self._cluster.runtime.clock.monotonic_ms()
        assignment.retry_at_ms = now_ms + self._cluster.backoff().next_ms()
