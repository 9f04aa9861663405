"""A cluster of one partition without a network, whose log a test cuts and fills again: for plans, reads and tables."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from crabka.clients.fetcher.epoch_ends import LeaderEpochEnd
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.clients.fetcher.offsets import EARLIEST
from crabka.ids import TopicPartition, uuid_to_text
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import BatchHeader, iter_headers
from crabka.records.record import decode_records
from crabka.spark.errors import TopicChangedError
from crabka.spark.plan import context
from crabka.spark.read import split_reader
from tests.support.tiers.planted import batches

Epochs = tuple[tuple[int, int], ...]
Rows = list[tuple[int, bytes | None]]
"""Offsets with values."""


@dataclass(frozen=True)
class ScriptedLog:
    """The log of `orders-0`: batches of five records with one value, and the first offsets of its leader epochs."""

    data: bytes = b""
    epochs: Epochs = ()
    start: int = 0
    topic_id: uuid.UUID = field(default=uuid.UUID(int=0xABCDEF))

    @property
    def headers(self) -> list[tuple[int, BatchHeader]]:
        return list(iter_headers(self.data))

    @property
    def end(self) -> int:
        return self.headers[-1][1].next_offset if self.data else self.start

    def filled(self, count: int, value: bytes, *, epoch: int) -> ScriptedLog:
        """The log with more batches of an epoch, which may be one that the log has had before."""
        begun = self.epochs if epoch in dict(self.epochs) else (*self.epochs, (epoch, self.end))
        return replace(self, data=self.data + batches(self.end, count, epoch=epoch, value=value), epochs=begun)

    def cut(self, offset: int) -> ScriptedLog:
        """The log without what lies from an offset on."""
        size_bytes = sum(header.size_in_bytes for _, header in self.headers if header.last_offset < offset)
        epochs = tuple((epoch, first) for epoch, first in self.epochs if first < offset)
        return replace(self, data=self.data[:size_bytes], epochs=epochs)

    def compacted(self, offsets: range) -> ScriptedLog:
        """The log without the batches that lie in a range."""
        kept = (self.data[at : at + h.size_in_bytes] for at, h in self.headers if h.base_offset not in offsets)
        return replace(self, data=b"".join(kept))

    def started_at(self, offset: int) -> ScriptedLog:
        """The log after retention deleted all before an offset."""
        begun = [(epoch, max(first, offset)) for epoch, first in self.epochs]
        epochs = {first: (epoch, first) for epoch, first in begun}
        return replace(self, data=self.compacted(range(offset)).data, epochs=tuple(epochs.values()), start=offset)

    def rows(self) -> Rows:
        """Offsets and values of all records."""
        found = ((header, self.data[at : at + header.size_in_bytes]) for at, header in self.headers)
        records = (record for header, data in found for record in decode_records(data, header))
        return [(record.offset, record.value) for record in records]


class ScriptedSession:
    """Answers as the leader of a log; what `BrokerSession` answers, as far as plans and reads ask it."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> ScriptedSession:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topics(self) -> Mapping[str, Any]:
        return {"orders": SimpleNamespace(topic_id=self._log.topic_id, is_internal=False, partitions=(0,))}

    def offsets(self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool) -> dict[TopicPartition, int]:
        return {p: self._log.start if which == EARLIEST else self._log.end for p, which in timestamps.items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, LeaderEpochEnd]:
        return {partition: self._epoch_end(epoch) for partition, epoch in epochs.items()}

    def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        limits: FetcherSettings,
        timeout_ms: int | None,
        *,
        topic_id: str | None = None,
    ) -> FetchAnswer:
        log = self._log
        if topic_id not in (None, uuid_to_text(log.topic_id)):
            raise TopicChangedError(f"the topic {partition.topic} was created anew")
        if not log.start <= offset <= log.end:
            return FetchAnswer(ErrorCode.offset_out_of_range, -1, -1, (), b"")
        position = next((at for at, header in log.headers if header.last_offset >= offset), len(log.data))
        return FetchAnswer(ErrorCode.none, log.end, log.start, (), log.data[position:])

    def _epoch_end(self, epoch: int) -> LeaderEpochEnd:
        """As Kafka's LeaderEpochFileCache.endOffsetFor."""
        known = self._log.epochs
        if not known or epoch > known[-1][0]:
            return LeaderEpochEnd(-1, -1)
        if epoch == known[-1][0]:
            return LeaderEpochEnd(epoch, self._log.end)
        above = bisect_right([each for each, _ in known], epoch)
        return LeaderEpochEnd(known[above - 1][0] if above else epoch, known[above][1])

    @property
    def _log(self) -> ScriptedLog:
        return self._cluster.log


class ScriptedCluster:
    """The cluster that sessions reach, whatever address they are given. `log` is what its leader has now."""

    options: Mapping[str, str] = {
        "kafka.bootstrap.servers": "log:1",
        "read.mode": "broker",
        "fetchOffset.retryIntervalMs": "0",
        "failOnDataLoss": "true",
    }

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: ScriptedLog) -> None:
        self.log = log
        for module in (context, split_reader):
            monkeypatch.setattr(module, "BrokerSession", self._session)

    def _session(self, _bootstrap: str, _properties: Mapping[str, str]) -> ScriptedSession:
        return ScriptedSession(self)


def log_of(*parts: tuple[int, bytes, int]) -> ScriptedLog:
    """Return a log of parts, each with its number of batches, their value and their epoch."""
    log = ScriptedLog()
    for count, value, epoch in parts:
        log = log.filled(count, value, epoch=epoch)
    return log
