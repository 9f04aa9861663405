"""Writes the rows of one source partition to a topic, exactly once, however often tasks are killed and tried again.

Each partition has a transactional id of its own: a second attempt fences the first. How far the source was read is
committed to a group in the same transaction as the rows, under the partition of the target with the same number, with
the identity of the source beside it. An attempt reads it after fencing the others, and continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.group_types import GroupOffset
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.errors import AbortableTransactionError
from crabka.clients.producer.producer import Producer
from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.producer.transaction_messages import OffsetToCommit
from crabka.errors import ConfigError, CrabkaError
from crabka.ids import TopicPartition
from crabka.records.record import Headers
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.jobs.pace import Pace
from crabka.spark.plan.history.witnesses import BatchWitness, Chain, chains_from_json, cut_chain, extended

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 3
_MICROSECONDS = 1_000


class ReplayRow(NamedTuple):
    """One record of the source."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int

    @property
    def size_bytes(self) -> int:
        """About how much there is to send."""
        in_headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + in_headers


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTarget:
    """Where rows go and how; `name` is that of the group, and of the transactional ids with the partition after it.

    A transaction ends with whichever of its limits is reached first: what it holds has to be sent within its timeout.
    With `keep_partitions` a row goes to the partition that it had, else where its key says. A job shares the rate out
    among the partitions, a writer keeps what it is given.
    """

    bootstrap: str
    topic: str
    name: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    keep_partitions: bool = True
    records_per_second: float | None = None
    transaction_records: int = 5_000
    transaction_bytes: int = 16 << 20
    codec: int = 0
    transaction_timeout_ms: int = 60_000

    def settings(self, partition: int) -> ProducerSettings:
        """Return the settings of the producer for a source partition."""
        return ProducerSettings(
            transactional_id=f"{self.name}-{partition}",
            codec=self.codec,
            batch_bytes=256 * 1024,
            linger_ms=20,
            transaction_timeout_ms=self.transaction_timeout_ms,
        )


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """What is replayed: offsets mean nothing under another topic id."""

    topic: str
    topic_id: str | None

    def text(self, witness: BatchWitness | None = None) -> str:
        """Return the metadata of the committed offset; the witness is of a batch before it."""
        identity: dict[str, Any] = {"replay": self.topic, "id": self.topic_id}
        return json.dumps(identity if witness is None else identity | {"witness": list(witness)})

    def require_same(self, committed: GroupOffset, name: str) -> None:
        """Raise ConfigError unless progress was made with this source."""
        if not committed.metadata:
            return
        try:
            content = json.loads(committed.metadata)
            is_same = (content["replay"], content["id"]) == (self.topic, self.topic_id)
        except (ValueError, KeyError, TypeError):
            is_same = False
        if not is_same:
            raise ConfigError(
                f"{name} has replayed {committed.metadata} before, not {self.text()}: take another name for this replay"
            )


def committed_witness(committed: GroupOffset) -> Chain:
    """Return the witness in the metadata of progress; earlier versions wrote none."""
    try:
        return chains_from_json({"0": [json.loads(committed.metadata)["witness"]]})[0]
    except (ValueError, KeyError, TypeError, ConfigError):
        return ()


class ReplayWriter:
    """The producer of one source partition. Use as a context manager; entering it fences earlier attempts."""

    def __init__(self, target: ReplayTarget, source: SourceIdentity, partition: int, chain: Chain = ()) -> None:
        """`chain` are witnesses of the source: progress is committed with the last one before it."""
        self._chain = chain
        self._target = target
        self._source = source
        self._partition = partition
        self._place = TopicPartition(target.topic, partition)
        self._session = BrokerSession(target.bootstrap, target.client)
        self._producer: Producer | None = None
        self._pace = Pace(target.records_per_second)
        self.next_offset = 0

    def __enter__(self) -> Self:
        try:
            self._session.run(self._open)
        except BaseException:
            self._session.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self._session.run(lambda _cluster: self._close(flush=kind is None))
        finally:
            self._session.close()

    def write(self, rows: Sequence[ReplayRow], end_offset: int) -> int:
        """Write rows in one transaction and note that all offsets below the end are done; return how many were new.

        What an earlier attempt has written is skipped.
        """
        fresh = [row for row in rows if row.offset >= self.next_offset]
        if end_offset <= self.next_offset:
            return 0
        self._pace.wait(len(fresh))
        for attempt in range(_TRIES):
            try:
                self._session.run(lambda _cluster: self._write(fresh, end_offset))
                break
            except AbortableTransactionError:
                if attempt + 1 == _TRIES:
                    raise
        self.next_offset = end_offset
        return len(fresh)

    async def _open(self, cluster: Cluster) -> None:
        producer = Producer(cluster, self._target.settings(self._partition))
        try:
            await producer.init_transactions()
            # Only this partition: others may be in the middle of their transactions.
            offsets = await Admin(cluster).groups.list_offsets(self._target.name, [self._place], require_stable=True)
            committed = offsets.get(self._place)
            if committed is not None:
                self._source.require_same(committed, self._target.name)
                self.next_offset = committed.offset
                self._chain = extended(committed_witness(committed), self._chain)
        except BaseException:
            await producer.close(flush=False)
            raise
        self._producer = producer

    async def _close(self, *, flush: bool) -> None:
        if self._producer is not None:
            await self._producer.close(flush=flush)

    async def _write(self, rows: Sequence[ReplayRow], end_offset: int) -> None:
        producer = self._producer
        if producer is None:
            raise CrabkaError("the writer is not open")
        partition = self._partition if self._target.keep_partitions else None
        async with producer.transaction():
            for row in rows:
                await producer.send(
                    self._target.topic,
                    row.value,
                    row.key,
                    partition=partition,
                    headers=row.headers,
                    timestamp=row.timestamp_ms,
                )
            witness = next(reversed(cut_chain(self._chain, end_offset)), None)
            progress = OffsetToCommit(end_offset, metadata=self._source.text(witness))
            await producer.send_offsets_to_transaction({self._place: progress}, self._target.name)


def rows_of_batch(batch: pa.RecordBatch) -> list[ReplayRow]:
    """Return the rows of an Arrow batch with the columns of the source."""
    columns = {name: batch.column(name).to_pylist() for name in ("offset", "key", "value", "headers")}
    times = batch.column("timestamp").cast("int64").to_pylist()
    return [
        ReplayRow(offset, key, value, _headers(headers), time // _MICROSECONDS)
        for offset, key, value, headers, time in zip(
            columns["offset"], columns["key"], columns["value"], columns["headers"], times, strict=True
        )
    ]


def in_transactions(
    batches: Iterable[Sequence[ReplayRow]], target: ReplayTarget, end_offset: int
) -> Iterator[tuple[list[ReplayRow], int]]:
    """Yield rows in groups of the target's size, with the offset up to which the source is done with each.

    The last one has `end_offset`, also when it has no rows: what lies after the last row was looked at too.
    """
    waiting: list[ReplayRow] = []
    waiting_bytes = 0
    for batch in batches:
        for row in batch:
            waiting.append(row)
            waiting_bytes += row.size_bytes
            if len(waiting) >= target.transaction_records or waiting_bytes >= target.transaction_bytes:
                yield waiting, row.offset + 1
                waiting, waiting_bytes = [], 0
    yield waiting, end_offset


def _headers(headers: list[dict[str, Any]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in headers or ())
