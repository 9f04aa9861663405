"""A cluster for plans without a network: one partition whose log a test writes, served as a leader would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.epoch_ends import LeaderEpochEnd
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.isolation import AbortedSpan
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import iter_headers
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan import planner
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.context import PlanContext
from tests.support.tiers.planted import ORDERS, PlantedTier
from tests.support.tiers.stores import store_of


class LeaderSession:
    """Answers as the leader of the planted partition, from all batches of its log.

    `aborted` are its transactions with the offsets of their markers. `faults` are what it answers to the first fetches;
    while it is `failing`, every other question but a fetch has to be asked twice.
    """

    def __init__(self, log: bytes, *, aborted: Mapping[AbortedSpan, int], last_stable_offset: int) -> None:
        self.batches = [(header, log[at : at + header.size_in_bytes]) for at, header in iter_headers(log)]
        self.aborted = aborted
        self.last_stable_offset = last_stable_offset
        self.faults: list[FetchAnswer] = []
        self.fetched: list[int] = []
        self.failing = False
        self.has_failed = False

    def topics(self) -> Mapping[str, Any]:
        return {ORDERS.topic: SimpleNamespace(topic_id=ORDERS.topic_id, is_internal=False, partitions=(0,))}

    def offsets(self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool) -> dict[TopicPartition, int]:
        assert read_committed
        self._fail()
        known = {EARLIEST: self.batches[0][0].base_offset, LATEST: self.last_stable_offset}
        return {partition: known.get(position, -1) for partition, position in timestamps.items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, LeaderEpochEnd]:
        self._fail()
        return {partition: LeaderEpochEnd(epoch, self._end) for partition, epoch in epochs.items()}

    def fetch(
        self, partition: TopicPartition, offset: int, limits: FetcherSettings, timeout_ms: int, *, topic_id: str | None
    ) -> FetchAnswer:
        self.fetched.append(offset)
        if self.faults:
            return self.faults.pop(0)
        if offset >= self.last_stable_offset:
            return FetchAnswer(ErrorCode.none, self._end, 0, (), b"")
        header, data = next(each for each in self.batches if each[0].last_offset >= offset)
        concerned = (
            span
            for span, marker in self.aborted.items()
            if marker >= offset and span.first_offset <= header.last_offset
        )
        return FetchAnswer(ErrorCode.none, self._end, 0, tuple(concerned), data)

    def _fail(self) -> None:
        """Fail every second time if `failing`."""
        if self.failing:
            self.has_failed = not self.has_failed
            if self.has_failed:
                raise ClientNetworkError("no broker there")

    @property
    def _end(self) -> int:
        return self.batches[-1][0].next_offset


def plan_with(monkeypatch: pytest.MonkeyPatch, session: LeaderSession, tier: PlantedTier) -> None:
    """Let plans ask a session and a tier, whatever the options name."""

    @contextmanager
    def open_context(options: SourceOptions) -> Iterator[PlanContext]:
        yield PlanContext(options, session, SegmentObjects(store_of(tier)))  # type: ignore[arg-type]

    monkeypatch.setattr(planner, "open_context", open_context)


def committed_options(uri: str = "file:///nowhere", **more: str) -> SourceOptions:
    """Options of a read of committed records from a cluster with a tier that is listed."""
    given = {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "orders",
        "tier.uri": uri,
        "tier.metadata": "listing",
        "isolation.level": "read_committed",
    }
    return SourceOptions.parse(given | {key.replace("__", "."): value for key, value in more.items()}, streaming=False)
