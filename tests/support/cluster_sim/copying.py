"""Transactional copiers in a cluster, and the reader of committed records that watches them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any, cast

from crabka.clients.fetcher.fetcher import Fetcher, FetcherSettings, OffsetReset
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.ports import Clock, Runtime
from tests.support.cluster_sim.clients import ClientDesk, TopicPlan
from tests.support.cluster_sim.lines import CoordinatorLine
from tests.support.cluster_sim.process_loop import ProcessLoop
from tests.support.cluster_sim.trace import ClusterTrace
from tests.support.coordinator_sim.copier import OUTPUT, RECORDS_PER_PARTITION, Copier, value_of
from tests.support.coordinator_sim.ledger import Ledger, Place
from tests.support.power_loss.machine import Machine

INPUT = "in"
PARTITIONS = 2
GROUP_ID = "copy"
COPIERS = 2
# So many records of each partition must follow when all is well again.
COPIED_IN_CALM = 8
COMMITTED = FetcherSettings(
    offset_reset=OffsetReset.EARLIEST, read_committed=True, max_wait_ms=200, request_timeout_ms=3_000
)
EXACTLY_ONCE = "committed records are there once and in order"
COPIED = "copying goes on in the end"
# Where a loss that is excused leaves nothing to be checked of transactions.
SOURCES_OF_TRUTH = frozenset({OUTPUT, "__consumer_offsets", "__transaction_state"})


class LenientTrace:
    """A trace that requires nothing any more once the cluster was excused."""

    def __init__(self, trace: ClusterTrace) -> None:
        self._trace = trace
        self.is_lenient = False

    def note(self, event: str) -> None:
        """Remember an event."""
        self._trace.note(event)

    def require(self, condition: bool, name: str, message: str) -> None:
        """Raise BrokenInvariantError unless the condition holds or does not matter."""
        if not self.is_lenient:
            self._trace.require(condition, name, message)


@dataclass
class CopierSeat:
    """What a copier needs of its machine: no more than a client has."""

    loop: ProcessLoop
    rng: random.Random
    clock: Clock
    trace: LenientTrace
    client_runtime: Runtime


class ClusterCopier(Copier):
    """A copier that finds its coordinators and leaders."""

    def __init__(self, transactional_id: str, seat: CopierSeat, ledger: Ledger, desk: ClientDesk) -> None:
        places: list[Place] = [(INPUT, index) for index in range(PARTITIONS)]
        super().__init__(transactional_id, GROUP_ID, cast("Machine", seat), ledger, places)
        self.line = cast("Any", CoordinatorLine(desk.connect, group_id=GROUP_ID, transactional_id=transactional_id))


class CopyScene:
    """Copiers that come and go, and who watches them."""

    def __init__(self, desk: ClientDesk, loop: ProcessLoop) -> None:
        self.trace = LenientTrace(desk.trace)
        self._desk = desk
        self._loop = loop
        runtime = desk.runtime
        self._seat = CopierSeat(loop, desk.rng, runtime.clock, self.trace, runtime)
        self._ledger = Ledger(cast("Any", self.trace), loop.time)
        self.copiers: list[ClusterCopier] = []
        self.seen: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
        self._targets = [RECORDS_PER_PARTITION] * PARTITIONS
        self._calm = asyncio.Event()

    @staticmethod
    def topics(replication_factor: int) -> list[TopicPlan]:
        """Return the topics that are copied from and to."""
        safe = min(2, replication_factor)
        return [TopicPlan(INPUT, PARTITIONS, 1), TopicPlan(OUTPUT, PARTITIONS, replication_factor, safe)]

    @property
    def is_complete(self) -> bool:
        """Whether enough was copied and read since `settle`, or everything."""
        return all(len(values) >= target for values, target in zip(self.seen, self._targets, strict=True))

    @property
    def commits(self) -> int:
        """How many transactions were committed."""
        return sum(copier.commits for copier in self.copiers)

    def observe(self) -> None:
        """Stop to require anything when the truth itself may be lost."""
        for where, ledger in self._desk.model.partitions.items():
            if ledger.excuses and where.topic in SOURCES_OF_TRUTH and not self.trace.is_lenient:
                self.trace.note(f"transactions are not checked any more: {where} may have lost records")
                self.trace.is_lenient = True

    async def settle(self) -> None:
        """From now on no node pauses or dies."""
        self._calm.set()
        self._targets = [min(len(values) + COPIED_IN_CALM, RECORDS_PER_PARTITION) for values in self.seen]
        for copier in self.copiers:
            await copier.settle()

    async def copy_forever(self, number: int) -> None:
        """Be a copier, die now and then, and come back."""
        rng = random.Random(self._desk.rng.getrandbits(64))
        while True:
            copier = ClusterCopier(f"copier-{number}", self._seat, self._ledger, self._desk)
            self.copiers.append(copier)
            if self._calm.is_set():
                await copier.settle()
            life = asyncio.create_task(copier.live())
            try:
                await asyncio.wait([life], timeout=rng.uniform(6, 30))
                if self._calm.is_set():
                    await life
                if life.done():
                    life.result()
                self.trace.note(f"{copier.name} dies")
            finally:
                life.cancel()
                await asyncio.wait([life])
            await asyncio.sleep(rng.uniform(0, 2))

    async def read_forever(self) -> None:
        """Read committed records; each of them is the next of its partition, whatever was killed meanwhile."""
        next_offsets = [0] * PARTITIONS
        while True:
            async with self._desk.connect() as cluster, Fetcher(cluster, COMMITTED) as fetcher:
                fetcher.assign({TopicPartition(OUTPUT, index): offset for index, offset in enumerate(next_offsets)})
                for _ in range(12):
                    try:
                        records = await fetcher.poll(500, 100)
                    except CrabkaError as error:
                        self.trace.note(f"cannot read committed records: {error}")
                        await asyncio.sleep(0.2)
                        break
                    self.observe()
                    for record in records:
                        self._take(record.partition, record.offset, record.value)
                        next_offsets[record.partition] = record.offset + 1

    def _take(self, partition: int, offset: int, value: bytes | None) -> None:
        values = self.seen[partition]
        self.trace.require(
            value == value_of(partition, len(values)),
            EXACTLY_ONCE,
            f"{value!r} at {partition}@{offset} after {values[-3:]}",
        )
        values.append(value)
