"""The clients of a cluster: producers that number their records, and readers that know what may come."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.fetcher.fetcher import FetchedRecord, Fetcher, FetcherSettings, OffsetReset
from crabka.clients.fetcher.offsets import LATEST
from crabka.clients.producer.accumulator import RecordMetadata
from crabka.clients.producer.producer import Producer, ProducerSettings
from crabka.clients.security.security import UNPROTECTED, ClientSecurity
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.ports import Runtime
from tests.support.cluster_sim.model import ClusterModel
from tests.support.cluster_sim.trace import ClusterTrace
from tests.support.cluster_sim.watch import ClusterWatch

CLIENT_HOST = "client"
CONNECTIONS = ClusterSettings(
    ConnectionSettings(request_timeout_ms=3_000, connect_timeout_ms=1_000),
    metadata_max_age_ms=2_000,
    metadata_timeout_ms=600_000,
    retry_backoff_max_ms=200,
)
IDEMPOTENT = ProducerSettings(linger_ms=3, batch_bytes=1500, request_timeout_ms=3_000, delivery_timeout_ms=3_600_000)
READER = FetcherSettings(
    offset_reset=OffsetReset.EARLIEST, partition_max_bytes=8000, max_wait_ms=300, request_timeout_ms=3_000
)
LARGEST_PADDING = 300
# What a producer has under way before it waits: partitions without a leader take whatever comes.
MOST_UNANSWERED = 150
ONCE = "records are read once and in order"
ALL_THERE = "acknowledged records are read back"
ONE_TRUTH = "readers see one truth"
END = "the end of a partition never goes back for a consumer"


@dataclass(frozen=True)
class TopicPlan:
    """A topic that lives as long as the run."""

    name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int = 1
    # Whether each append is flushed, in a thread: requests for other topics wait with it.
    flushes: bool = False

    @property
    def places(self) -> list[TopicPartition]:
        """All partitions."""
        return [TopicPartition(self.name, index) for index in range(self.partitions)]


@dataclass
class ClientDesk:
    """What clients have: a way to the cluster, and where to write down what they see."""

    runtime: Runtime
    bootstrap: str
    model: ClusterModel
    watch: ClusterWatch
    trace: ClusterTrace
    rng: random.Random
    security: ClientSecurity = UNPROTECTED

    def connect(self) -> Cluster:
        """Return a client's view of the cluster."""
        connection = replace(CONNECTIONS.connection, security=self.security)
        return Cluster(self.runtime, self.bootstrap, replace(CONNECTIONS, connection=connection))


class NumberingProducer:
    """Writes records `name:number:padding` to all places, and notes what is acknowledged."""

    def __init__(self, desk: ClientDesk, name: str, places: Sequence[TopicPartition], pause_s: float) -> None:
        self.name = name
        self._desk = desk
        self._places = list(places)
        self._pause_s = pause_s
        self._rng = random.Random(desk.rng.getrandbits(64))
        self._count = 0
        self._unanswered: set[asyncio.Future[RecordMetadata]] = set()
        self._stopping = asyncio.Event()

    @property
    def unanswered_count(self) -> int:
        """How many records wait for their acknowledgement."""
        return len(self._unanswered)

    def finish(self) -> None:
        """Write nothing new."""
        self._stopping.set()

    async def produce_forever(self) -> None:
        """Write until asked to finish, then wait for the answers, until cancelled."""
        async with self._desk.connect() as cluster:
            producer = Producer(cluster, IDEMPOTENT)
            try:
                while not self._stopping.is_set():
                    if self.unanswered_count < MOST_UNANSWERED:
                        await self._send(producer, self._rng.choice(self._places))
                    if self._rng.random() < 0.8:
                        await asyncio.sleep(self._rng.uniform(0, 2 * self._pause_s))
                await producer.flush()
            finally:
                await producer.close(flush=False)

    async def _send(self, producer: Producer, where: TopicPartition) -> None:
        self._count += 1
        value = b"%s:%d:%s" % (self.name.encode(), self._count, b"x" * self._rng.randrange(LARGEST_PADDING))
        desk = self._desk
        desk.model.send(where, value)
        sent_s = asyncio.get_running_loop().time()
        try:
            delivery = await producer.send(where.topic, value, partition=where.partition)
        except CrabkaError as error:
            desk.trace.note(f"{self.name} cannot send to {where}: {error}")
            await asyncio.sleep(0.2)
            return
        self._unanswered.add(delivery)

        def settle(done: asyncio.Future[RecordMetadata]) -> None:
            self._unanswered.discard(done)
            if done.cancelled():
                return
            if (error := done.exception()) is not None:
                desk.trace.note(f"{self.name}: {value[:20]!r} to {where} failed: {error}")
            else:
                offset = done.result().offset
                desk.model.acknowledge(where, value, offset, sent_s)
                desk.watch.check_acknowledged(where, value, offset)

        delivery.add_done_callback(settle)


async def write_carelessly(desk: ClientDesk, where: TopicPartition, count: int) -> None:
    """Write with acks=1, which promises nothing: such records may be lost."""
    settings = ProducerSettings(acks=1, idempotent=False, max_in_flight=1, request_timeout_ms=1_000)
    async with desk.connect() as cluster, Producer(cluster, settings) as producer:
        for number in range(count):
            value = b"careless:%d:" % number
            desk.model.send(where, value)
            desk.model.partitions[where].may_repeat.add(value)
            await producer.send(where.topic, value, partition=where.partition)
            await asyncio.sleep(0.1)


class OrderlyReader:
    """Follows partitions from their start; whatever it reads must be what it may read there."""

    def __init__(self, desk: ClientDesk, places: Sequence[TopicPartition]) -> None:
        self._desk = desk
        self._places = list(places)
        self._positions: dict[TopicPartition, int] = dict.fromkeys(places, 0)
        self._excuses: dict[TopicPartition, int] = dict.fromkeys(places, 0)
        self.seen: defaultdict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        self._last: dict[tuple[TopicPartition, bytes], int] = {}

    async def read_forever(self) -> None:
        """Read until cancelled, with a new connection now and then."""
        while True:
            async with self._desk.connect() as cluster, Fetcher(cluster, READER) as fetcher:
                self._forget_excused()
                fetcher.assign(dict(self._positions))
                for _ in range(12):
                    try:
                        records = await fetcher.poll(400, 300)
                    except CrabkaError as error:
                        self._desk.trace.note(f"cannot read: {error}")
                        await asyncio.sleep(0.2)
                        break
                    if self._forget_excused():
                        break
                    for record in records:
                        self._take(record)

    def _take(self, record: FetchedRecord) -> None:
        where, value = TopicPartition(record.topic, record.partition), record.value or b""
        ledger, require = self._desk.model.partitions[where], self._desk.trace.require
        require(value in ledger.sent, ONE_TRUTH, f"{where}@{record.offset}: {value[:30]!r} was never sent there")
        known = self.seen[where].setdefault(record.offset, value)
        require(known == value, ONE_TRUTH, f"{where}@{record.offset}: {value[:30]!r} after {known[:30]!r}")
        producer, number, _ = value.split(b":", 2)
        last = self._last.get((where, producer), -1)
        require(
            int(number) > last or value in ledger.may_repeat,
            ONCE,
            f"{where}@{record.offset}: number {int(number)} of {producer.decode()} after {last}",
        )
        self._last[where, producer] = max(last, int(number))
        self._positions[where] = record.offset + 1

    def _forget_excused(self) -> bool:
        """Begin anew where records may have been lost; return whether there is such a place."""
        changed = [where for where in self._places if self._desk.model.partitions[where].excuses > self._excuses[where]]
        for where in changed:
            self._excuses[where] = self._desk.model.partitions[where].excuses
            self._positions[where] = 0
            self.seen[where].clear()
            for key in [key for key in self._last if key[0] == where]:
                del self._last[key]
        return bool(changed)

    def check_complete(self) -> None:
        """Everything that was acknowledged was read, where it was said to be. Raises BrokenInvariantError."""
        for where in self._places:
            ledger = self._desk.model.partitions[where]
            offsets = {value: offset for offset, value in self.seen[where].items()}
            for value, offset in ledger.acknowledged.items():
                if value in ledger.may_be_missing:
                    continue
                found = offsets.get(value)
                self._desk.trace.require(
                    found is not None and offset in (-1, found),
                    ALL_THERE,
                    f"{where}: {value[:30]!r} was acknowledged at {offset} and is at {found}; "
                    f"{len(offsets)} of {len(ledger.acknowledged)} were read",
                )

    def missing_count(self) -> int:
        """Return how many acknowledged records were not read yet."""
        missing = 0
        for where in self._places:
            ledger = self._desk.model.partitions[where]
            missing += len(ledger.acknowledged.keys() - ledger.may_be_missing - set(self.seen[where].values()))
        return missing


class EndReader:
    """Asks for the ends of partitions all the time: what was below an end once stays below it (KIP-207)."""

    def __init__(self, desk: ClientDesk, places: Sequence[TopicPartition]) -> None:
        self._desk = desk
        self._places = list(places)
        self._ends: dict[TopicPartition, tuple[int, int]] = {}

    async def ask_forever(self) -> None:
        """Ask until cancelled."""
        while True:
            async with self._desk.connect() as cluster:
                for _ in range(10):
                    await asyncio.sleep(self._desk.rng.uniform(0, 0.5))
                    where = self._desk.rng.choice(self._places)
                    excuses = self._desk.model.partitions[where].excuses
                    leaders = self._desk.watch.leader_epochs(where)
                    try:
                        found = await Admin(cluster, 3_000).list_offsets({where: LATEST})
                    except CrabkaError:
                        continue
                    # One who does not know yet that it leads no more tells what it knows.
                    if len(leaders) == 1 and self._desk.watch.leader_epochs(where) == leaders:
                        self._take(where, found[where].offset, excuses)

    def _take(self, where: TopicPartition, end: int, excuses: int) -> None:
        if excuses != self._desk.model.partitions[where].excuses:
            return
        before, known_excuses = self._ends.get(where, (0, excuses))
        if known_excuses == excuses:
            self._desk.trace.require(end >= before, END, f"{where} ends at {end} after {before}")
        self._ends[where] = (end, excuses)


def plans(replication_factor: int) -> list[TopicPlan]:
    """Return the topics of a run: safe ones, and ones that hang on fewer replicas."""
    most = replication_factor
    return [
        TopicPlan("safe", 2, most, min(2, most)),
        TopicPlan("loose", 1, most),
        TopicPlan("flushed", 2, 1, flushes=True),
        TopicPlan("pair", 1, min(2, most)),
        TopicPlan("single", 1, 1),
    ]


def configs_of(plan: TopicPlan) -> Mapping[str, str]:
    """Return the configs of a topic; its segments are small."""
    return {
        "min.insync.replicas": str(plan.min_insync_replicas),
        "internal.segment.bytes": "20000",
        "index.interval.bytes": "600",
        **({"flush.messages": "1"} if plan.flushes else {}),
    }
