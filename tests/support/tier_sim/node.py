"""A broker of the simulation: real logs on a disk of its own, real tiering, real reads; the world says who leads.

A node outlives its runs: `start` begins one on what the disk holds, `crash` ends it and takes what was not durable.
Followers fetch by the real rules of followers from the log of the leader, without a network between them.
"""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING, Any, cast

from crabka.broker.partition.partition import Partition
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.broker.replication.followed import FollowedPartition
from crabka.broker.replication.follower_changes import FollowerChanges
from crabka.broker.replication.follower_state import (
    AppendFetched,
    AskLeaderRange,
    AskLeaderTier,
    CutFollowerLog,
    FetchAnswered,
    FollowerAction,
    FollowerEvent,
    FollowerPosition,
    LeaderRangeKnown,
    LeaderTierKnown,
    RebuildFromTier,
    RestartLog,
    TakeLeaderOffsets,
)
from crabka.broker.replication.truncation import diverging_epoch
from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
from crabka.broker.tiering.bootstrap.leader_start import LeaderStart
from crabka.broker.tiering.manager import TierHooks, TieringManager
from crabka.broker.tiering.metadata.tier_metadata import TierMetadata, TierMetadataManager
from crabka.broker.tiering.read.build import build_remote_reads
from crabka.broker.tiering.stats import TierStats
from crabka.broker.tiering.tools import TierTools
from crabka.errors import OffsetInRemoteTierError, OperationError
from crabka.ids import TopicPartition
from crabka.log.dirs.log_manager import LogManager
from crabka.ports import Network, Runtime
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.segments import TopicIdPartition
from crabka.testing import InlineThreads, MemoryFileSystem
from tests.support.tiers.metadata import SharedMetadata
from tests.support.tiers.scene import CrashingFailpoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.log.partition.partition_log import PartitionLog
    from tests.support.tier_sim.cluster import TierCluster
    from tests.support.tier_sim.model import WrittenBatch

NAME = TopicPartition("orders", 0)
BACKOFF_MS = 50


class TierNode:
    """One broker with its disk."""

    def __init__(self, cluster: TierCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.log_dir = f"/b{node_id}"
        self.lose_disk()
        self.is_up = False
        self.failures: list[BaseException] = []
        self.followed: FollowedPartition | None = None
        self.partition: Partition | None = None
        # What the log consisted of when it was looked at last.
        self.seen_batches: list[WrittenBatch] = []

    @property
    def log(self) -> PartitionLog:
        """The log of the partition, which the node must host."""
        assert self.partition is not None
        return self.partition.log

    # -- runs ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin a run on what the disk holds; the partition has no role yet."""
        cluster = self.cluster
        rng = random.Random(cluster.rng.getrandbits(64))
        self.threads = InlineThreads(cluster.loop, rng, max_delay_ms=2)
        self._pools: list[InlineThreads] = []
        self.failpoints = CrashingFailpoints()
        self.failpoints.crash = self.crash
        runtime = Runtime(
            clock=cluster.clock,
            rng=random.Random(rng.getrandbits(64)),
            threads=self.threads,
            fs=self.disk,
            network=cast("Network", None),
            make_pool=self._make_pool,
            failpoints=self.failpoints,
        )
        self.logs = LogManager(runtime, [self.log_dir])
        await self.logs.load(lambda _topic: cluster.topic)
        assert not self.logs.offline_dirs, self.logs.offline_reason(self.log_dir)
        self.is_up = True
        self.manager = self._tiering(runtime)
        self.reads = build_remote_reads(self.manager.tools)
        self.manager.subscribe_removed(lambda segment_id: self.reads.forget([segment_id.id]))
        self.registry = PartitionRegistry()
        self.changes = FollowerChanges(
            cluster.clock,
            self.registry,
            on_dir_failure=lambda _path, error: self.failures.append(error),
            save_recovery_points=self.logs.save_recovery_points,
            tier=FollowerTier(lambda: self.reads, self.logs),
        )
        self.partition = None
        self.manager.start()
        await self.reads.open()
        self.host()

    def _make_pool(self, _size: int, _name: str) -> InlineThreads:
        """A pool that talks to the tier is as slow as the tier is in this history."""
        rng = random.Random(self.cluster.rng.getrandbits(64))
        pool = InlineThreads(self.cluster.loop, rng, max_delay_ms=self.cluster.tier_delay_ms)
        self._pools.append(pool)
        return pool

    def _tiering(self, runtime: Runtime) -> TieringManager:
        cluster = self.cluster
        tools = TierTools(
            broker_id=self.node_id,
            runtime=runtime,
            config=lambda: cluster.config_of(self.log_dir),
            storage=cluster.storage,
            metadata=TierMetadata(),
            stats=TierStats(),
            flush_logs=lambda: self.logs.flush_dirty(cluster.clock.now_ms()),
            save_log_starts=self.logs.save_log_starts,
        )
        hooks = TierHooks(
            start_metadata=self._start_metadata,
            stop_metadata=self._stop_metadata,
            cluster=cluster.facts_of(self.node_id),
            on_dir_failure=lambda _path, error: self.failures.append(error),
            on_broken_invariant=self.failures.append,
            leader_start=LeaderStart(tools.metadata, FollowerTier(lambda: self.reads, self.logs)),
        )
        return TieringManager(tools, hooks)

    async def _start_metadata(self) -> TierMetadataManager:
        return SharedMetadata(self.cluster.rlmm, self.threads, self._own).as_manager

    def _own(self) -> list[TopicIdPartition]:
        return self.cluster.rlmm.partitions() if self.cluster.owner == self.node_id else []

    async def _stop_metadata(self) -> None:
        return None

    def crash(self) -> None:
        """End as a machine does that loses power: no task gets to its next step, what was not durable may be gone."""
        if not self.is_up:
            return
        self.cluster.observe(self)
        self.is_up = False
        for pool in (self.threads, *self._pools):
            pool.kill()
        scope = self.manager._scope
        scope._on_failure = lambda _error: None
        for task in list(scope._tasks):
            self.cluster.loop.call_soon(task.cancel)
        self.reads.close()
        if self.followed is not None:
            self.followed.is_current = False
        rng = self.cluster.rng
        self.disk.crash(random.Random(rng.getrandbits(64)), block_bytes=rng.choice([64, 512, 4096]))
        self.cluster.on_crashed(self)

    def lose_disk(self) -> None:
        """Get an empty disk in the place of the one of the last run."""
        self.disk = MemoryFileSystem(now_ms=self.cluster.clock.now_ms)
        self.disk.makedirs(self.log_dir)
        self.disk.fsync_dir("/")

    async def stop(self) -> None:
        """End the run in order."""
        self.is_up = False
        self.reads.close()
        await self.manager.close()
        for pool in (self.threads, *self._pools):
            pool.kill()

    # -- what the metadata of the cluster says -------------------------------------------------------------------

    def host(self) -> None:
        """Host the partition of the present topic; a log of a former one goes."""
        known = self.logs.get(NAME)
        if known is not None and known.topic_id != self.cluster.topic_id:
            self.logs.delete(NAME)
        log = self.logs.create(NAME, self.cluster.topic_id, self.cluster.topic)
        log.update_config(self.cluster.topic)
        if known is None and self.cluster.leader_epoch < 0:
            # The topic is new.
            log.durability.trust_end()
        self.partition = Partition(
            NAME.topic, NAME.partition, self.cluster.topic_id, log, self.logs.writer(log.log_dir)
        )
        self.registry.add(self.partition)
        self.seen_batches = []

    def let_go(self) -> None:
        """Lose the partition of a topic that is deleted."""
        partition = self.partition
        assert partition is not None
        self._stop_following()
        self.registry.remove(partition)
        self.manager.on_stop(partition, is_deleted=True)
        self.logs.delete(NAME)
        self.partition = None

    @property
    def must_await_tier(self) -> bool:
        """Whether the log may lack what the tier holds, so that it must not be led as it is."""
        return self.log.durability.may_be_short

    def await_tier(self, on_settled: Callable[[], None]) -> None:
        """Bring the log to the end of the tier; then call `on_settled`, unless there is another role by then."""
        partition = self.partition
        assert partition is not None
        self._stop_following()
        partition.is_leader = False
        self.manager.bring_to_tier_end(partition, on_settled)

    def lead(self, leader_epoch: int) -> None:
        """Lead in an epoch."""
        partition = self.partition
        assert partition is not None
        self._stop_following()
        partition.log.durability.trust_end()
        partition.is_leader, partition.leader_id, partition.leader_epoch = True, self.node_id, leader_epoch
        partition.log.leader_epochs.assign(leader_epoch, partition.log.next_append_offset)
        self.manager.on_leadership(partition)

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """Follow a leader."""
        partition = self.partition
        assert partition is not None
        self._stop_following()
        partition.is_leader, partition.leader_id, partition.leader_epoch = False, leader_id, leader_epoch
        self.manager.on_leadership(partition)
        self.followed = FollowedPartition(partition, backoff_ms=BACKOFF_MS)

    def _stop_following(self) -> None:
        if self.followed is not None:
            self.followed.is_current = False
            self.followed = None

    def take_settings(self) -> None:
        """Learn that settings of the topic changed."""
        assert self.partition is not None
        self.log.update_config(self.cluster.topic)
        self.manager.on_leadership(self.partition)

    # -- duties --------------------------------------------------------------------------------------------------

    async def keep_house(self) -> None:
        """Do what a broker does now and then: local retention, flushes, checkpoints."""
        now_ms, rng = self.cluster.clock.now_ms(), self.cluster.rng
        if rng.random() < 0.4:
            await self.logs.flush_dirty(now_ms)
        if self.is_up and rng.random() < 0.8:
            await self.logs.retention.run(now_ms)
        if self.is_up and rng.random() < 0.4:
            await self.logs.save_checkpoints()
        if self.is_up:
            self.logs.removal.delete_due(now_ms)

    # -- replication ---------------------------------------------------------------------------------------------

    def answer(self, follower_id: int, asked: FollowerPosition, max_bytes: int) -> tuple[FetchAnswered, bytes]:
        """Answer a follower, as the leader."""
        partition, log = self.partition, self.log
        assert partition is not None
        fields: dict[str, Any] = {"asked": asked}
        records = b""
        if asked.leader_epoch != partition.leader_epoch or not partition.is_leader:
            return FetchAnswered(error_code=ErrorCode.fenced_leader_epoch, **fields), b""
        try:
            diverging = diverging_epoch(
                log.end_offset_for_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                fetch_offset=asked.fetch_offset,
            )
            if asked.last_fetched_epoch >= 0 and asked.fetch_offset < log.log_start_offset:
                raise OperationError(ErrorCode.offset_out_of_range)
            if diverging is not None:
                return FetchAnswered(diverging=diverging, **fields), b""
            piece = log.read(asked.fetch_offset, max_bytes=max_bytes)
        except OffsetInRemoteTierError:
            return FetchAnswered(error_code=ErrorCode.offset_moved_to_tiered_storage, **fields), b""
        except OperationError as error:
            return FetchAnswered(error_code=error.error_code, **fields), b""
        records = bytes(piece.read()) if piece.length else b""
        self.cluster.on_fetched(follower_id, asked.fetch_offset)
        fields |= {"high_watermark": log.high_watermark, "log_start_offset": log.log_start_offset}
        return FetchAnswered(has_records=bool(records), **fields), records

    async def fetch(self, leader: TierNode) -> None:
        """Fetch once from the leader and do what comes of it."""
        followed = self.followed
        now_ms = self.cluster.clock.monotonic_ms()
        if followed is None or not followed.fetching.is_ready(now_ms):
            return
        asked = followed.fetching.position(self.log)
        event: FollowerEvent | None
        event, records = leader.answer(self.node_id, asked, self.cluster.rng.choice([1, 1000, 1 << 20]))
        while event is not None and followed.is_current:
            actions = followed.fetching.step(event, self.log, now_ms)
            event = None
            for action in actions:
                event = await self._perform(followed, leader, action, records)

    async def _perform(
        self, followed: FollowedPartition, leader: TierNode, action: FollowerAction, records: bytes
    ) -> FollowerEvent | None:
        changes = self.changes
        match action:
            case AppendFetched():
                return changes.append(followed, memoryview(records), action)
            case TakeLeaderOffsets(high_watermark, log_start_offset):
                changes.take_offsets(followed.partition, high_watermark, log_start_offset, 0)
                return None
            case CutFollowerLog():
                done = await changes.cut([(followed, action)])
                return done[0][1] if done else None
            case RestartLog():
                return await changes.restart(followed, action)
            case RebuildFromTier():
                self.cluster.rebuild_count += 1
                return await changes.rebuild(followed, action)
            case AskLeaderRange():
                return LeaderRangeKnown(leader.log.log_start_offset, leader.log.log_end_offset)
            case AskLeaderTier():
                return _tier_of(leader.log)


def _tier_of(log: PartitionLog) -> LeaderTierKnown:
    """Return what a follower learns by asking for the earliest local offset, and for the epoch before that."""
    place = log.local_log_start_offset
    epoch = log.leader_epochs.lineage.epoch_at(place)
    assert epoch is not None
    before = log.end_offset_for_epoch(epoch - 1)
    last_epoch = before.epoch if before.end_offset >= place else epoch
    return LeaderTierKnown(log.log_start_offset, place - 1, last_epoch)


def new_topic_id(rng: random.Random) -> uuid.UUID:
    """Return the id of a topic that is created."""
    return uuid.UUID(int=rng.getrandbits(128), version=4)
