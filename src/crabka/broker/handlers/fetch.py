"""Fetch (1): reads batches as they lie in the log, with sessions (KIP-227) and topic ids (KIP-516).

An idle fetch waits until `min_bytes` are readable or `max_wait` is over; under read_committed readable means below the
last stable offset, and the response names the aborted transactions. Nothing is decoded: a response is made
of slices of segment files. Idle partitions are answered with empty records, never with null.

A follower names itself: `replica_id`, from version 15 on `replica_state` with its broker epoch (KIP-903). Its fetch
reports its progress to the leader, reads up to the log end and waits for appends. From version 11 on consumers may be
sent to a follower (KIP-392); from 16 on an answer that sends them to another leader has its address (KIP-951).

What only the remote tier has (KIP-405) is waited for `remote.fetch.max.wait.ms`, and not at all if the log has enough
to answer at once: what comes from the tier then is there for the next fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.current_leaders import MISDIRECTED_FETCH, CurrentLeaders
from crabka.broker.fetch.reader import (
    FetchRead,
    TargetRead,
    read_slices,
    read_targets,
    with_cold_bytes,
)
from crabka.broker.fetch.remote_rows import RemoteBudget, with_remote_records
from crabka.broker.fetch.sessions import fetch_client, remember_sent, selects_by_rack
from crabka.broker.partition.purgatory import Delayed, EnoughBytes, StableBytes
from crabka.errors import OperationError
from crabka.protocol.apis import ms
from crabka.protocol.hot import NO_AFFINITY, FetchTopicResult, pack_fetch_response

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.fetch.sessions import FetchPlan
    from crabka.broker.partition.partition import Partition
    from crabka.broker.replication.follower_progress import FollowerProgress
    from crabka.ports import Payload
    from crabka.protocol.hot import NodeEndpoint
    from crabka.serving.request import Request

    Frame = Sequence[Payload]

FIRST_VERSION_WITH_ENDPOINTS = 16


def handle(context: BrokerContext, request: Request) -> Frame | asyncio.Future[Frame]:
    """Answer now if there is enough to say, else when there is."""
    try:
        plan = context.fetch_sessions.resolve(request.body, request.version, context.runtime.clock.now_ms())
    except OperationError as error:
        return pack_fetch_response(request.version, request.correlation_id, (), error_code=int(error.error_code))
    return _Fetch(context, request, plan).start()


def answer_plan(
    context: BrokerContext, request: Request, plan: FetchPlan, refused: Sequence[TargetRead] = ()
) -> Frame | asyncio.Future[Frame]:
    """Answer what a plan reads, and with it the rows of targets that the client may not read."""
    return _Fetch(context, request, plan, refused).start()


class _Fetch:
    """One fetch on its way: first look, maybe a wait and a second look, maybe cold reads, then the frame."""

    __slots__ = ("_client", "_context", "_plan", "_refused", "_request")

    def __init__(
        self, context: BrokerContext, request: Request, plan: FetchPlan, refused: Sequence[TargetRead] = ()
    ) -> None:
        self._context = context
        self._request = request
        self._plan = plan
        # Rows of targets that are not in the plan.
        self._refused = refused
        self._client = fetch_client(request.body, request.version, context.config)

    def start(self) -> Frame | asyncio.Future[Frame]:
        """Read what is there; wait if that is less than the client wants."""
        found = self._read()
        body = self._request.body
        wait_ms = ms(body.max_wait)
        if found.has_remote:
            return self._finish(found)
        if wait_ms > 0 and found.planned_bytes < body.min_bytes and not found.is_urgent and found.reads:
            partitions = [read.partition for read in found.reads if read.partition is not None]
            missing_bytes = body.min_bytes - found.planned_bytes
            if self._client.replica_id >= 0:
                return self._wait_for_appends(found, partitions, missing_bytes, wait_ms)
            condition = StableBytes if self._client.is_committed_only else EnoughBytes
            # A plain future, no task: a lost connection cancels it and so ends the wait.
            return Delayed(self._read_again, condition(partitions, missing_bytes)).start(wait_ms)
        return self._finish(found)

    def _wait_for_appends(
        self, found: FetchRead, partitions: Sequence[Partition], missing_bytes: int, wait_ms: int
    ) -> Frame | asyncio.Future[Frame]:
        wants_high_watermarks = selects_by_rack(self._context.config)
        if wants_high_watermarks and any(self._knows_less(read) for read in found.reads):
            return self._finish(found)
        condition = EnoughBytes(
            partitions, missing_bytes, by_follower=True, wants_high_watermarks=wants_high_watermarks
        )
        return Delayed(self._read_again, condition).start(wait_ms)

    def _knows_less(self, read: TargetRead) -> bool:
        follower = self._follower(read)
        return follower is not None and follower.sent_high_watermark < read.row.high_watermark

    def _follower(self, read: TargetRead) -> FollowerProgress | None:
        replication = None if read.partition is None else read.partition.replication
        return None if replication is None else replication.followers.get(self._client.replica_id)

    def _read_again(self) -> Frame | asyncio.Future[Frame]:
        return self._finish(self._read(is_first_look=False))

    def _finish(self, found: FetchRead) -> Frame | asyncio.Future[Frame]:
        if found.has_remote:
            return self._context.spawn(self._finish_remote(found))
        return self._context.spawn(self._finish_cold(found)) if found.cold_slices else self._pack(found)

    def _read(self, *, is_first_look: bool = True) -> FetchRead:
        found = read_targets(
            self._context, self._plan.targets, self._client, max_bytes=self._max_bytes, is_first_look=is_first_look
        )
        if self._refused:
            return found._replace(reads=[*found.reads, *self._refused], is_urgent=True)
        return found

    @property
    def _max_bytes(self) -> int:
        asked: int = self._request.body.max_bytes
        return min(asked, self._context.config.fetch_max_bytes)

    async def _finish_remote(self, found: FetchRead) -> Frame:
        local_bytes = found.planned_bytes
        is_enough = found.is_urgent or (local_bytes > 0 and local_bytes >= self._request.body.min_bytes)
        wait_ms = 0 if is_enough else self._context.config.remote_fetch_max_wait_ms
        budget = RemoteBudget(wait_ms, self._max_bytes - local_bytes, is_first=local_bytes == 0)
        reads = await with_remote_records(self._context, found.reads, budget)
        is_urgent = any(read.row.error_code for read in reads)
        found = FetchRead(reads, found.planned_bytes, is_urgent=found.is_urgent or is_urgent)
        return await self._finish_cold(found) if found.cold_slices else self._pack(found)

    async def _finish_cold(self, found: FetchRead) -> Frame:
        chunks = await self._context.request_threads.submit(read_slices, found.cold_slices)
        return self._pack(found._replace(reads=with_cold_bytes(self._context, found.reads, chunks)))

    def _pack(self, found: FetchRead) -> Frame:
        plan, request, reads = self._plan, self._request, found.reads
        endpoints: Sequence[NodeEndpoint] = ()
        if found.is_urgent and request.version >= FIRST_VERSION_WITH_ENDPOINTS:
            reads, endpoints = self._with_leaders(reads)
        if self._client.replica_id >= 0 and selects_by_rack(self._context.config):
            self._note_sent(reads)
        if plan.session is not None:
            reads = [read for read in reads if _has_news(read) or not plan.incremental]
            remember_sent(plan.session, [read.target for read in reads if read.row.records])
        topics: list[FetchTopicResult] = []
        previous: tuple[object, object] | None = None
        for read in reads:
            target = read.target
            key = (target.topic, target.topic_id)
            if key != previous:
                topics.append(FetchTopicResult(target.topic, target.topic_id, []))
                previous = key
            topics[-1].partitions.append(read.row)  # type: ignore[attr-defined] # the list made above
        return pack_fetch_response(
            request.version, request.correlation_id, topics, session_id=plan.session_id, node_endpoints=endpoints
        )

    def _with_leaders(self, reads: Sequence[TargetRead]) -> tuple[list[TargetRead], Sequence[NodeEndpoint]]:
        """Return the rows with the leaders that the client should go to, and where those are (KIP-951)."""
        leaders = CurrentLeaders(self._context, self._request.connection.listener)
        rows = []
        for read in reads:
            row, target = read.row, read.target
            if row.error_code in MISDIRECTED_FETCH:
                row = row._replace(current_leader=leaders.of(target.topic, target.topic_id, target.index))
            rows.append(read._replace(row=row))
        return rows, leaders.endpoints

    def _note_sent(self, reads: Sequence[TargetRead]) -> None:
        for read in reads:
            follower = self._follower(read)
            if follower is not None:
                follower.sent_high_watermark = read.row.high_watermark


def _has_news(read: TargetRead) -> bool:
    """Return whether a session's response must have this partition, and remember what it has."""
    row, target = read.row, read.target
    changed = (
        row.high_watermark != target.known_high_watermark
        or row.log_start_offset != target.known_log_start
        or len(row.records) > 0
        or row.error_code != 0
        or row.diverging_epoch is not None
        or row.preferred_read_replica != NO_AFFINITY
    )
    # After an error the next success is news even if the numbers are the same as before the error.
    target.known_high_watermark = row.high_watermark if row.error_code == 0 else -1
    target.known_log_start = row.log_start_offset
    return changed
