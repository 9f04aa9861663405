"""Random histories of the metadata topic: leaders change, cleanly or not, while several nodes write and read it.

Brokers keep the topic in lists; managers are real, with their fetchers, producers and snapshot files, each on a disk of
its own. At every quiet moment each manager knows exactly what the events of the topic amount to.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from crabka.ports import Runtime
from crabka.records.header import parse_header
from crabka.records.record import decode_records
from crabka.remote.errors import RemoteStorageError
from crabka.remote.inmemory import RlmmCacheDump
from crabka.remote.segments import TopicIdPartition
from crabka.remote_topic.boot import start_topic_based_manager
from crabka.remote_topic.event_log import EventBatch
from crabka.remote_topic.kafka_event_log import KafkaMetadataEventLogConfig
from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager
from crabka.remote_topic.metadata_partition import MetadataPartition
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.settings import RemoteTopicSettings
from crabka.runtime.task_scope import TaskScope
from crabka.testing import MemoryFileSystem, SimulatedNetwork, VirtualTimeLoop, simulated_runtime
from crabka.testing.remote_samples import sample_segment, sample_update
from tests.support.clients.simulation import HASTY
from tests.support.clusters.memory import MemoryCluster, MemoryPartition
from tests.support.tier_topic.events import DELETE_FINISHED, DELETE_STARTED, FINISHED, partition_named
from tests.support.tier_topic.topic import metadata_partitions

BROKERS = (1, 2, 3)
TOPIC_PARTITIONS = 2
HOSTED = [partition_named("t", index) for index in range(4)]
SETTINGS = RemoteTopicSettings(num_partitions=TOPIC_PARTITIONS, replication_factor=3, consume_wait_ms=20_000)
DIRECTORY = "/d1"
STEPS = 60
PATIENCE_S = 120


class HistoryError(AssertionError):
    """A manager knows something else than the topic says."""


class _Reader(NamedTuple):
    """A node that reads and writes the topic."""

    runtime: Runtime
    config: KafkaMetadataEventLogConfig


class MetadataHistoryWorld:
    """One history. A failure names its seed: `MetadataHistoryWorld(seed).run()` repeats it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = VirtualTimeLoop()
        self.network = SimulatedNetwork(self.loop, self.rng)
        self.brokers = MemoryCluster(BROKERS)
        self.partitions: list[MemoryPartition] = metadata_partitions(self.brokers, TOPIC_PARTITIONS)
        # Up to where each replica has each partition; that of the leader has all.
        self.replicas = [dict.fromkeys(BROKERS, 0) for _ in self.partitions]
        self.readers: dict[int, _Reader] = {}
        self.managers: dict[int, TopicBasedRemoteLogMetadataManager] = {}
        self.unclean_count = self.quiet_count = self.doubt_count = 0
        self.trace: list[str] = []
        self._next_start = dict.fromkeys(HOSTED, 0)
        self._scope = TaskScope()

    def run(self) -> None:
        """Live the whole history. Raises HistoryError."""
        try:
            self.loop.run(self._main())
        except BaseException as error:
            error.add_note("\n".join(self.trace[-30:]))
            raise

    async def _main(self) -> None:
        bootstrap = await self.brokers.start(self.network.host)
        for number in (1, 2):
            runtime = simulated_runtime(self.loop, self.rng, self.network.host(f"node-{number}"), MemoryFileSystem())
            runtime.fs.makedirs(DIRECTORY)
            config = KafkaMetadataEventLogConfig(bootstrap=bootstrap, node_id=number, topic=SETTINGS, cluster=HASTY)
            self.readers[number] = _Reader(runtime, config)
            await self._start(number)
        work: dict[Callable[[], Awaitable[None]], int] = {
            self.copy: 30,
            self.wait: 20,
            self.replicate: 20,
            self.elect: 4,
            self.elect_uncleanly: 6,
            self.write_snapshots: 6,
            self.restart: 6,
            self.quiet: 6,
        }
        try:
            for _ in range(STEPS):
                (step,) = self.rng.choices(list(work), list(work.values()))
                ends = [(each.leader, each.leader_epoch, each.end_offset) for each in self.partitions]
                self.trace.append(f"{self.loop.time():.3f} {step.__name__} {ends}")
                await step()
            await self.quiet()
        finally:
            await self._scope.close()
            for manager in self.managers.values():
                await manager.stop()
            self.brokers.close()

    async def _start(self, number: int) -> None:
        reader = self.readers[number]
        manager = await start_topic_based_manager(reader.runtime, reader.config, DIRECTORY)
        manager.subscribe_doubts(self._note_doubt)
        manager.on_partition_leadership_changes(HOSTED, [])
        self.managers[number] = manager

    def _note_doubt(self) -> None:
        self.doubt_count += 1

    # -- nodes ---------------------------------------------------------------------------------------------------

    async def copy(self) -> None:
        """Let a node note that it copies a segment, and perhaps what becomes of it."""
        manager = self.managers[self.rng.choice(sorted(self.managers))]
        partition = self.rng.choice(HOSTED)
        steps = self.rng.choice([[], [FINISHED], [FINISHED], [FINISHED, DELETE_STARTED, DELETE_FINISHED]])
        start = self._next_start[partition]
        self._next_start[partition] += 10
        segment = sample_segment(self.rng.getrandbits(64), (start, start + 9), partition=partition)

        async def write() -> None:
            try:
                await manager.add_segment(segment)
                for state in steps:
                    await manager.update_segment(sample_update(segment, state))
            except RemoteStorageError as error:
                self.trace.append(f"{self.loop.time():.3f} given up: {error}")

        self._scope.start(write())

    async def write_snapshots(self) -> None:
        """Let a node write down what it knows."""
        await self.managers[self.rng.choice(sorted(self.managers))]._snapshots.write_dirty()

    async def restart(self) -> None:
        """Stop a node; the topic may get another history before it comes back."""
        number = self.rng.choice(sorted(self.managers))
        await self.managers.pop(number).stop()
        if self.rng.random() < 0.5:
            await self.elect_uncleanly()
        if self.managers:
            for _ in range(self.rng.randrange(4)):
                await self.copy()
            await self.wait()
        await self._start(number)

    async def wait(self) -> None:
        """Let time pass."""
        await asyncio.sleep(self.rng.choice([0.001, 0.02, 0.3, 2]))

    # -- leaders -------------------------------------------------------------------------------------------------

    async def replicate(self) -> None:
        """Let some replicas catch up."""
        for partition, replicas in zip(self.partitions, self.replicas, strict=True):
            for node_id in BROKERS:
                if self.rng.random() < 0.5:
                    replicas[node_id] = partition.end_offset

    async def elect(self) -> None:
        """Let a replica lead that has everything."""
        index = self.rng.randrange(TOPIC_PARTITIONS)
        self.partitions[index].elect(self.rng.choice(BROKERS))

    async def elect_uncleanly(self) -> None:
        """Let a replica lead that lacks something, or perhaps does not."""
        index = self.rng.randrange(TOPIC_PARTITIONS)
        partition, replicas = self.partitions[index], self.replicas[index]
        node_id = self.rng.choice([each for each in BROKERS if each != partition.leader])
        self.unclean_count += replicas[node_id] < partition.end_offset
        partition.elect(node_id, replicas[node_id])
        self.replicas[index] = {each: min(end, partition.end_offset) for each, end in replicas.items()}

    # -- quiet moments -------------------------------------------------------------------------------------------

    async def quiet(self) -> None:
        """Wait until all has come everywhere, and compare what nodes know with what the topic says."""
        self.quiet_count += 1
        deadline = self.loop.time() + PATIENCE_S
        while reason := self._difference():
            if self.loop.time() > deadline:
                raise HistoryError(reason)
            await asyncio.sleep(0.05)

    def _difference(self) -> str | None:
        for number, manager in sorted(self.managers.items()):
            for index, partition in enumerate(self.partitions):
                hosted = [each for each in HOSTED if metadata_partition_for(each, TOPIC_PARTITIONS) == index]
                if not hosted:
                    continue
                view = manager._assignment.partitions[index].readable
                if view is None:
                    return f"node {number} does not get ready for metadata partition {index}"
                if _by_partition(view.dump()) != _by_partition(_replayed(partition)):
                    return f"node {number} knows something else than metadata partition {index} says"
        return None


def _replayed(partition: MemoryPartition) -> RlmmCacheDump:
    """Return what the events of a partition amount to."""
    fresh = MetadataPartition(0)
    for batch in partition.batches:
        records = [(record.offset, record.value) for record in decode_records(batch)]
        fresh.apply(EventBatch(0, records, parse_header(batch).next_offset))
    return fresh.capture().dump


def _by_partition(dump: RlmmCacheDump) -> dict[TopicIdPartition, object]:
    return {
        each.topic_id_partition: (
            sorted(each.segments, key=lambda segment: str(segment.segment_id)),
            sorted(each.highest_offsets),
            each.partition_delete,
        )
        for each in dump.partitions
    }
