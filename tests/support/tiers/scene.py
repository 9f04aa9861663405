"""Brokers that tier one partition, in virtual time: real logs on a disk in memory, real tasks, a tier in memory.

All brokers share the tier and its metadata, as a cluster does. Who leads is what the test says. A broker may crash at a
failpoint, in the middle of an upload or between any two moments, and start again on what its disk holds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from crabka.broker.partition.partition import Partition
from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
from crabka.broker.tiering.bootstrap.leader_start import LeaderStart
from crabka.broker.tiering.manager import TierHooks, TieringManager
from crabka.broker.tiering.metadata.tier_metadata import TierMetadata, TierMetadataManager
from crabka.broker.tiering.stats import TierStats
from crabka.broker.tiering.tools import TierTools
from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.config.topic import TopicConfig
from crabka.ids import TopicPartition
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.ports import Network, Runtime
from crabka.records.header import iter_headers
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from crabka.testing import InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from crabka.testing.faulty_storage import FaultyStorageManager
from crabka.testing.memory_storage import InmemoryRemoteStorage
from tests.support.storage.small import make_batch
from tests.support.tiers.metadata import SharedMetadata
from tests.support.tiers.segment_metadata import ORDERS

GRACE_MS = 20_000
INTERVAL_MS = 1000
# Two batches fill a segment.
BATCH = make_batch(5, value_bytes=100)
SEGMENT_BYTES = 2 * len(BATCH)
BATCH_RECORDS = 5
SEGMENT_RECORDS = 2 * BATCH_RECORDS
TIERED = TopicConfig(
    remote_storage_enable=True,
    internal_segment_bytes=SEGMENT_BYTES,
    retention_ms=-1,
    local_retention_ms=-2,
    file_delete_delay_ms=0,
)
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.manager.task.interval.ms": str(INTERVAL_MS),
    "crabka.remote.leftover.grace.ms": str(GRACE_MS),
}


class CrashingFailpoints:
    """Ends a broker where the test wants it to."""

    def __init__(self) -> None:
        self.place: str | None = None
        self.reached: list[str] = []
        self.crash: Callable[[], None] = lambda: None

    def hit(self, name: str) -> None:
        """Note the place; crash if it is the one."""
        self.reached.append(name)
        if name == self.place:
            self.place = None
            self.crash()
            # What runs here never gets to its next line.
            raise asyncio.CancelledError


@dataclass
class ToyCluster:
    """What brokers must know of the cluster, as the test says."""

    deleted: set[TopicIdPartition] = field(default_factory=set)
    owner: int = 1
    catch_ups: int = 0
    # What a broker that catches up with the controller learns.
    news: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class ToyClusterFacts:
    """The facts as one broker sees them."""

    cluster: ToyCluster

    def is_topic_deleted(self, partition: TopicIdPartition) -> bool:
        return partition in self.cluster.deleted

    async def catch_up(self) -> None:
        self.cluster.catch_ups += 1
        self.cluster.news()


@dataclass(eq=False)
class ToyPartition:
    """A hosted partition, as far as tiering looks at it."""

    log: PartitionLog
    is_leader: bool = False
    leader_epoch: int = 0
    topic: str = ORDERS.topic
    topic_id: Any = ORDERS.topic_id
    index: int = ORDERS.partition


class TierScene:
    """The tier, its metadata, and the disks of all brokers."""

    def __init__(self, settings: dict[str, str] | None = None, *, wants_custom_metadata: bool = False) -> None:
        self.loop = VirtualTimeLoop()
        self.clock = SimulatedClock(self.loop)
        self.fs = MemoryFileSystem(now_ms=self.clock.now_ms)
        self.store = InmemoryRemoteStorage(self.fs, wants_custom_metadata=wants_custom_metadata)
        self.storage = FaultyStorageManager(self.store)
        self.rlmm = InmemoryRemoteLogMetadataManager()
        self.cluster = ToyCluster()
        self.topic = TIERED
        properties = {**one_node_properties("/d", "h", 9), **SETTINGS, **(settings or {})}
        self.config = ServerConfig.from_properties(properties)[0]
        self.rng = random.Random(1)
        # What a broker made durable of its log start.
        self.saved_starts: dict[int, int] = {}
        self.brokers: list[TierBroker] = []

    def broker(self, broker_id: int = 1, *, is_ready: bool = True) -> TierBroker:
        """Start a broker on what its disk holds; it hosts the partition and neither leads nor follows yet."""
        broker = TierBroker(self, broker_id)
        self.brokers.append(broker)
        if is_ready:
            broker.metadata_is_up.set_result(None)
        broker.manager.start()
        return broker

    def run(self, main: Awaitable[Any]) -> Any:
        """Run to the end of a coroutine and close whatever still runs."""

        async def all_of_it() -> Any:
            try:
                return await main
            finally:
                for broker in self.brokers:
                    if not broker.is_dead:
                        await broker.manager.close()

        result = self.loop.run(all_of_it())
        assert not [name for broker in self.brokers for name in broker.failures], "an unexpected failure"
        return result

    # -- what there is -------------------------------------------------------------------------------------------

    def listed(self, partition: TopicIdPartition = ORDERS) -> list[RemoteLogSegmentMetadata]:
        """Return what the metadata knows, by offset."""
        return list(self.rlmm.list_remote_log_segments(partition))

    def states(self) -> list[tuple[int, int, RemoteLogSegmentState]]:
        """Return start, end and state of what the metadata knows."""
        return [(each.start_offset, each.end_offset, each.state) for each in self.listed()]

    def finished_ranges(self) -> list[tuple[int, int]]:
        """Return the offsets of finished segments."""
        return [
            (start, end) for start, end, state in self.states() if state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        ]

    def check_tidy(self) -> None:
        """Nothing is stuck, and the tier holds exactly what its metadata says."""
        listed = self.listed()
        assert all(each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED for each in listed), self.states()
        assert set(self.store.segment_ids()) == {each.segment_id for each in listed}

    def records_in_tier(self, start: int, end: int, epoch: int = 0) -> list[int]:
        """Return the last offsets of the batches that a reader finds in the tier in [start, end)."""
        found, offset = [], start
        while offset < end:
            segment = self.rlmm.remote_log_segment_metadata(ORDERS, epoch, offset)
            assert segment is not None, f"offset {offset} is not in the tier"
            content = bytes(self.store.fetch_log_segment(segment, 0))
            for _, header in iter_headers(content):
                if header.base_offset >= offset:
                    found.append(header.last_offset)
            offset = segment.end_offset + 1
        return found


class TierBroker:
    """One run of one broker."""

    def __init__(self, scene: TierScene, broker_id: int) -> None:
        self.scene = scene
        self.broker_id = broker_id
        self.is_dead = False
        # Whether nothing can be made durable.
        self.flush_fails = False
        self.failures: list[BaseException] = []
        self.failpoints = CrashingFailpoints()
        self.failpoints.crash = self.crash
        self.threads = InlineThreads(scene.loop, random.Random(scene.rng.getrandbits(64)), max_delay_ms=2)
        self.log_dir = f"/b{broker_id}"
        self.log = self._open()
        self.partition = ToyPartition(self.log)
        self.stats = TierStats()
        self.shared_metadata = SharedMetadata(scene.rlmm, self.threads, self._own)
        self.metadata_is_up: asyncio.Future[None] = scene.loop.create_future()
        self.tools = self._tools()
        hooks = TierHooks(
            start_metadata=self._start_metadata,
            stop_metadata=self._stop_metadata,
            cluster=ToyClusterFacts(scene.cluster),
            on_dir_failure=lambda _path, error: self.failures.append(error),
            on_broken_invariant=self.failures.append,
            leader_start=LeaderStart(self.tools.metadata, cast("FollowerTier", None)),
        )
        self.manager = TieringManager(self.tools, hooks)

    def _open(self) -> PartitionLog:
        scene = self.scene
        scene.fs.makedirs(self.log_dir)
        context = SegmentContext(scene.fs, rng=random.Random(1), tiering=True)
        path, start = f"{self.log_dir}/orders-0", scene.saved_starts.get(self.broker_id, 0)
        options = OpenOptions(
            clean=False, log_start_offset=start, now_ms=scene.clock.now_ms(), topic_id=ORDERS.topic_id
        )
        opened = open_log(context, path, TopicPartition("orders", 0), scene.topic, options)
        opened.set_high_watermark(opened.log_end_offset)
        return opened

    def _tools(self) -> TierTools:
        scene = self.scene
        runtime = Runtime(
            clock=scene.clock,
            rng=random.Random(scene.rng.getrandbits(64)),
            threads=self.threads,
            fs=scene.fs,
            network=cast("Network", None),
            failpoints=self.failpoints,
        )
        return TierTools(
            broker_id=self.broker_id,
            runtime=runtime,
            config=lambda: scene.config,
            storage=scene.storage,
            metadata=TierMetadata(),
            stats=self.stats,
            flush_logs=self._flush,
            save_log_starts=self._save_log_starts,
        )

    async def _start_metadata(self) -> TierMetadataManager:
        await self.metadata_is_up
        return self.shared_metadata.as_manager

    def _own(self) -> list[TopicIdPartition]:
        return self.scene.rlmm.partitions() if self.scene.cluster.owner == self.broker_id else []

    async def _stop_metadata(self) -> None:
        return None

    async def _flush(self) -> None:
        if not self.flush_fails:
            self.log.flush()

    async def _save_log_starts(self, _log_dirs: Iterable[str]) -> None:
        self.scene.saved_starts[self.broker_id] = self.log.log_start_offset

    # -- what happens to it --------------------------------------------------------------------------------------

    def fill(self, segments: int, *, leader_epoch: int = 0, timestamp: int | None = None) -> None:
        """Append so many full segments and one batch more, which opens an active one."""
        for _ in range(2 * segments):
            self.append(leader_epoch=leader_epoch, timestamp=timestamp)
        if self.log.tiering.untiered().active_bytes != len(BATCH):
            self.append(leader_epoch=leader_epoch, timestamp=timestamp)

    def append(self, *, leader_epoch: int = 0, timestamp: int | None = None) -> None:
        """Append one batch and let the high watermark follow."""
        now_ms = self.scene.clock.now_ms()
        batch = make_batch(BATCH_RECORDS, value_bytes=100, timestamp=now_ms if timestamp is None else timestamp)
        self.log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=now_ms)
        self.log.set_high_watermark(self.log.log_end_offset)

    def lead(self, leader_epoch: int = 0) -> None:
        """Become the leader."""
        self.partition.is_leader, self.partition.leader_epoch = True, leader_epoch
        self.log.leader_epochs.assign(leader_epoch, self.log.log_end_offset)
        self.manager.on_leadership(cast("Partition", self.partition))

    def follow(self) -> None:
        """Become a follower."""
        self.partition.is_leader = False
        self.manager.on_leadership(cast("Partition", self.partition))

    def set_topic(self, **changes: Any) -> None:
        """Change the settings of the topic, here and for later starts."""
        self.scene.topic = replace(self.scene.topic, **changes)
        self.log.update_config(self.scene.topic)
        self.manager.on_leadership(cast("Partition", self.partition))

    def leave(self, *, is_deleted: bool = False) -> None:
        """Lose the partition."""
        if is_deleted:
            self.scene.cluster.deleted.add(ORDERS)
        self.manager.on_stop(cast("Partition", self.partition), is_deleted=is_deleted)

    def crash(self) -> None:
        """End as a killed process does: no task gets to its next step, no thread delivers anything."""
        if self.is_dead:
            return
        self.is_dead = True
        self.threads.kill()
        scope = self.manager._scope
        scope._on_failure = lambda _error: None
        for task in list(scope._tasks):
            # A cancelled task would run its `finally` blocks, which touch only what died with the process.
            self.scene.loop.call_soon(task.cancel)


async def passes(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)


def in_scene(
    test: Callable[[TierScene], Awaitable[None]],
    settings: dict[str, str] | None = None,
    *,
    wants_custom_metadata: bool = False,
) -> None:
    """Run a test with a fresh scene."""
    scene = TierScene(settings, wants_custom_metadata=wants_custom_metadata)
    scene.run(test(scene))
