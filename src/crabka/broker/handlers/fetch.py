"""Fetch (1): reads batches as they lie in the log, with sessions (KIP-227) and topic ids (KIP-516).

An idle fetch waits until `min_bytes` are readable or `max_wait` is over; under read_committed readable means below the
last stable offset, and the response names the aborted transactions. Nothing is decoded: a response is made
of slices of segment files. Idle partitions are answered with empty records, never with null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.fetch_reader import (
    READ_COMMITTED,
    FetchRead,
    TargetRead,
    read_slices,
    read_targets,
    with_cold_bytes,
)
from crabka.broker.fetch_sessions import remember_sent
from crabka.broker.purgatory import DelayedCommittedFetch, DelayedFetch
from crabka.errors import OperationError
from crabka.protocol.apis import ms
from crabka.protocol.hot import FetchTopicResult, pack_fetch_response

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.fetch_sessions import FetchPlan
    from crabka.ports import Payload
    from crabka.serving.request import Request

    Frame = Sequence[Payload]


def handle(context: BrokerContext, request: Request) -> Frame | asyncio.Future[Frame]:
    """Answer now if there is enough to say, else when there is."""
    try:
        plan = context.fetch_sessions.resolve(request.body, request.version, context.runtime.clock.now_ms())
    except OperationError as error:
        return pack_fetch_response(request.version, request.correlation_id, (), error_code=int(error.error_code))
    return _Fetch(context, request, plan).start()


class _Fetch:
    """One fetch on its way: first look, maybe a wait and a second look, maybe cold reads, then the frame."""

    __slots__ = ("_context", "_plan", "_request")

    def __init__(self, context: BrokerContext, request: Request, plan: FetchPlan) -> None:
        self._context = context
        self._request = request
        self._plan = plan

    def start(self) -> Frame | asyncio.Future[Frame]:
        """Read what is there; wait if that is less than the client wants."""
        found = self._read()
        body = self._request.body
        wait_ms = ms(body.max_wait)
        if wait_ms > 0 and found.planned_bytes < body.min_bytes and not found.has_error and found.reads:
            partitions = [read.partition for read in found.reads if read.partition is not None]
            delayed = DelayedCommittedFetch if body.isolation_level == READ_COMMITTED else DelayedFetch
            # A plain future, no task: a lost connection cancels it and so ends the wait.
            return delayed(self._read_again, partitions, body.min_bytes - found.planned_bytes).start(wait_ms)
        return self._finish(found)

    def _read_again(self) -> Frame | asyncio.Future[Frame]:
        return self._finish(self._read())

    def _finish(self, found: FetchRead) -> Frame | asyncio.Future[Frame]:
        return self._context.spawn(self._finish_cold(found)) if found.cold_slices else self._pack(found.reads)

    def _read(self) -> FetchRead:
        body = self._request.body
        return read_targets(
            self._context,
            self._plan.targets,
            max_bytes=min(body.max_bytes, self._context.config.fetch_max_bytes),
            isolation_level=body.isolation_level,
        )

    async def _finish_cold(self, found: FetchRead) -> Frame:
        chunks = await self._context.runtime.threads.submit(read_slices, found.cold_slices)
        return self._pack(with_cold_bytes(self._context, found.reads, chunks))

    def _pack(self, reads: Sequence[TargetRead]) -> Frame:
        plan = self._plan
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
        request = self._request
        return pack_fetch_response(request.version, request.correlation_id, topics, session_id=plan.session_id)


def _has_news(read: TargetRead) -> bool:
    """Tell whether a session's client must hear of this partition, and remember what it hears."""
    row, target = read.row, read.target
    changed = (
        row.high_watermark != target.known_high_watermark
        or row.log_start_offset != target.known_log_start
        or len(row.records) > 0
        or row.error_code != 0
        or row.diverging_epoch is not None
    )
    # After an error the next success is news even if the numbers are the same as before the error.
    target.known_high_watermark = row.high_watermark if row.error_code == 0 else -1
    target.known_log_start = row.log_start_offset
    return changed
