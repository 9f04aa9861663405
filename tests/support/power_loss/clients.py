"""The clients of the simulation: producers, a reader and an administrator, who write down what they were promised."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigChange, ConfigOwner, NewTopic, ResourceType
from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.cluster.connection import ConnectionSettings
from crabka.clients.fetcher.fetcher import Fetcher, FetcherSettings, OffsetReset
from crabka.clients.producer.accumulator import RecordMetadata
from crabka.clients.producer.producer import Producer, ProducerSettings
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from tests.support.power_loss.checks import actual_state
from tests.support.power_loss.machine import NODE_HOST, PORT, Machine
from tests.support.power_loss.model import SYNCED, Model, TopicState

CONNECTIONS = ClusterSettings(
    ConnectionSettings(request_timeout_ms=3_000, connect_timeout_ms=1_000), metadata_max_age_ms=300
)
PATIENT_MS = 600_000
LARGEST_PADDING = 700
# Topics that stay, and what is special about each.
LASTING_TOPICS = {
    "synced": SYNCED,
    "cached": {},
    "rolling": {"internal.segment.bytes": "2500", "index.interval.bytes": "300", "flush.ms": "700"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "squeezed": {"compression.type": "lz4", "internal.segment.bytes": "6000"},
}
PASSING_TOPICS = ("passing-0", "passing-1")


def connect(machine: Machine) -> Cluster:
    """Return a client's view of the node."""
    return Cluster(machine.client_runtime, f"{NODE_HOST}:{PORT}", CONNECTIONS)


class Author:
    """Numbers records, sends them and notes what is acknowledged."""

    def __init__(self, name: str, model: Model, rng: random.Random) -> None:
        self._name = name
        self._model = model
        self._rng = rng
        self._count = 0

    async def send(
        self, producer: Producer, topic: str, topic_id: uuid.UUID, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        """Send a unique record."""
        self._count += 1
        value = b"%s:%d:%s" % (self._name.encode(), self._count, b"x" * self._rng.randrange(LARGEST_PADDING))
        self._model.sent.add(value)
        delivery = await producer.send(topic, value, partition=partition)

        def note(done: asyncio.Future[RecordMetadata]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._model.acknowledge(topic_id, partition, done.result().offset, value)

        delivery.add_done_callback(note)
        return delivery


async def produce_forever(machine: Machine, model: Model, author: Author, settings: ProducerSettings) -> None:
    """Write to the lasting topics until cancelled."""
    rng = random.Random(machine.rng.getrandbits(64))
    async with connect(machine) as cluster:
        producer = Producer(cluster, settings)
        try:
            while True:
                topic = rng.choice(list(LASTING_TOPICS))
                state = model.existing().get(topic)
                if state is not None and state.topic_id is not None:
                    try:
                        await author.send(producer, topic, state.topic_id, rng.randrange(state.partitions))
                    except CrabkaError as error:
                        machine.trace.note(f"cannot send to {topic}: {error}")
                if rng.random() < 0.8:
                    await asyncio.sleep(rng.uniform(0, 0.04))
        finally:
            await producer.close(flush=False)


async def read_forever(machine: Machine, model: Model) -> None:
    """Read the lasting topics from the start, many times; what is served twice must be the same."""
    settings = FetcherSettings(offset_reset=OffsetReset.EARLIEST, partition_max_bytes=4000, max_wait_ms=100)
    rng = random.Random(machine.rng.getrandbits(64))
    while True:
        await asyncio.sleep(rng.uniform(0, 0.4))
        topics = {name: state for name, state in model.existing().items() if name in LASTING_TOPICS}
        generation = machine.generation
        if not topics or not machine.is_serving:
            continue
        async with connect(machine) as cluster, Fetcher(cluster, settings) as fetcher:
            fetcher.assign([TopicPartition(name, i) for name, state in topics.items() for i in range(state.partitions)])
            for _ in range(rng.randrange(1, 8)):
                try:
                    records = await fetcher.poll(300, 200)
                except CrabkaError as error:
                    machine.trace.note(f"cannot read: {error}")
                    break
                if machine.generation != generation:
                    # Records from before a power cut say nothing about the log behind it.
                    break
                for record in records:
                    topic_id = topics[record.topic].topic_id
                    assert topic_id is not None
                    seen = model.partitions[topic_id, record.partition].seen
                    before = seen.setdefault(record.offset, record.value or b"")
                    machine.trace.require(
                        record.value in model.sent and before == record.value,
                        "readers see one truth",
                        f"{record.topic}-{record.partition}@{record.offset}: {record.value!r} after {before!r}",
                    )


class Administrator:
    """Changes topics, one change at a time."""

    def __init__(self, machine: Machine, model: Model) -> None:
        self._machine = machine
        self._model = model
        self._rng = random.Random(machine.rng.getrandbits(64))
        self._author = Author("idempotent-admin", model, self._rng)

    async def create_lasting_topics(self) -> None:
        """Create the topics that the other clients use."""
        async with connect(self._machine) as cluster:
            for name, configs in LASTING_TOPICS.items():
                await self._create(cluster, name, self._rng.randrange(1, 3), configs)

    async def administer_forever(self) -> None:
        """Change things at random until cancelled."""
        while True:
            await asyncio.sleep(self._rng.uniform(0, 0.15))
            async with connect(self._machine) as cluster:
                await self._change_something(cluster)

    async def _change_something(self, cluster: Cluster) -> None:
        name = self._rng.choice(PASSING_TOPICS)
        state = self._model.state(name)
        if state is None:
            configs = self._rng.choice([{}, SYNCED, LASTING_TOPICS["rolling"]])
            await self._create(cluster, name, self._rng.randrange(1, 4), configs)
            return
        match self._rng.randrange(10):
            case 0 | 1:
                await self._change(name, None, Admin(cluster, 3_000).delete_topics([name]))
            case 2:
                name = self._rng.choice([name, *LASTING_TOPICS])
                await self._add_partition(cluster, name)
            case 3:
                await self._alter_config(cluster, self._rng.choice([name, *LASTING_TOPICS]))
            case 4 | 5:
                await self._delete_records(cluster, self._rng.choice([name, *LASTING_TOPICS]))
            case 6:
                await self._replace(cluster, name, state)
            case _:
                await self._write_some(cluster, name, state)

    async def _create(self, cluster: Cluster, name: str, partitions: int, configs: dict[str, str]) -> None:
        topic = NewTopic(name, partitions, 1, configs)

        async def create() -> None:
            (created,) = await Admin(cluster, 3_000).create_topics([topic])
            self._machine.trace.require(
                created.topic_id not in self._model.deleted_ids, "re-created topics are new", f"{created}"
            )
            self._model.topics[name] = [TopicState(created.topic_id, partitions, configs)]

        await self._change(name, TopicState(None, partitions, configs), create())

    async def _replace(self, cluster: Cluster, name: str, state: TopicState) -> None:
        """Trim and delete a topic and create one of the same name, which must know nothing of the first."""
        await self._write_some(cluster, name, state)
        await self._delete_records(cluster, name)
        await self._change(name, None, Admin(cluster, 3_000).delete_topics([name]))
        if self._model.state(name) is None:
            await self._create(cluster, name, state.partitions, dict(state.configs))
            created = self._model.state(name)
            if created is not None:
                await self._write_some(cluster, name, created)

    async def _add_partition(self, cluster: Cluster, name: str) -> None:
        state = self._model.state(name)
        if state is not None and state.partitions < 4:
            count = state.partitions + 1
            await self._change(
                name, state._replace(partitions=count), Admin(cluster, 3_000).create_partitions({name: count})
            )

    async def _alter_config(self, cluster: Cluster, name: str) -> None:
        state = self._model.state(name)
        if state is not None:
            value = str(self._rng.randrange(1 << 40, 1 << 41))
            change = ConfigChange("retention.ms", value)
            await self._change(
                name,
                state._replace(configs={**state.configs, "retention.ms": value}),
                Admin(cluster, 3_000).alter_configs(ConfigOwner(ResourceType.TOPIC, name), [change]),
            )

    async def _delete_records(self, cluster: Cluster, name: str) -> None:
        state = self._model.state(name)
        if state is None or state.topic_id is None:
            return
        index = self._rng.randrange(state.partitions)
        model = self._model.partitions[state.topic_id, index]
        known = sorted({model.start, *model.acknowledged})
        offset = self._rng.choice(known)
        if offset < model.start:
            return
        model.asked_start = max(model.asked_start, offset)
        where = TopicPartition(name, index)
        generation = self._machine.generation
        try:
            starts = await Admin(cluster, 3_000).delete_records({where: offset})
        except CrabkaError as error:
            self._machine.trace.note(f"DeleteRecords {where} before {offset}: {error}")
            return
        self._machine.trace.note(f"DeleteRecords {where} before {offset}: starts at {starts[where]}")
        if generation == self._machine.generation or starts[where] <= model.start:
            model.start = max(model.start, starts[where])

    async def _write_some(self, cluster: Cluster, name: str, state: TopicState) -> None:
        assert state.topic_id is not None
        settings = ProducerSettings(linger_ms=1, batch_bytes=900, request_timeout_ms=2_000, delivery_timeout_ms=4_000)
        producer = Producer(cluster, settings)
        deliveries = []
        try:
            for _ in range(self._rng.randrange(1, 12)):
                partition = self._rng.randrange(state.partitions)
                deliveries.append(await self._author.send(producer, name, state.topic_id, partition))
            await producer.flush()
        except CrabkaError as error:
            self._machine.trace.note(f"cannot write to {name}: {error}")
        finally:
            await producer.close(flush=False)
            # Nothing of these may arrive later: the topic may be another one then.
            await asyncio.sleep(1 if any(each.cancelled() or each.exception() for each in deliveries) else 0)

    async def _change(self, name: str, after: TopicState | None, change: Awaitable[None]) -> None:
        """Carry out a change; until its answer comes, the topic may be as before or as after."""
        before = self._model.state(name)
        self._model.topics[name] = [before, after]
        try:
            await change
        except CrabkaError as error:
            self._machine.trace.note(f"{name} -> {after}: no answer, {error}")
            await self._ask_for(name)
            return
        self._machine.trace.note(f"{name} -> {after}: acknowledged")
        if len(self._model.topics[name]) > 1:
            self._model.topics[name] = [before]
            self._model.settle(name, after)

    async def _ask_for(self, name: str) -> None:
        """Find out what became of a change: wait until nothing of it can be under way, then look."""
        while True:
            generation = self._machine.generation
            await asyncio.sleep(0.5)
            if self._machine.node is not None and self._machine.generation == generation:
                self._model.settle(name, actual_state(self._machine.node, name))
                return
