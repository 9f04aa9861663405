"""The cluster of the simulation: who leads, who is in sync, the settings of the topic, and the one tier of all nodes.

It plays the controller and the network. Followers fetch when the world lets them.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, cast

from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.config.topic import TopicConfig
from crabka.formats.checkpoints import decode_epochs
from crabka.ports import FileSystem
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.removal_notice import is_active_notice, is_removal_notice
from crabka.remote.segments import (
    IndexType,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from crabka.testing import SimulatedClock, VirtualTimeLoop
from crabka.testing.faulty_storage import FaultyStorageManager
from crabka.testing.memory_storage import InmemoryRemoteStorage
from tests.support.tier_sim.model import TopicModel, ViolationError, WrittenBatch, batches_in
from tests.support.tier_sim.node import NAME, TierNode, new_topic_id
from tests.support.tiers.scene import SETTINGS

GRACE_MS = 10_000
HANGING_S = 120
# How long after a change of settings something may still go by the old ones.
LATE_MS = 5000
# Between two fetches of a follower.
FETCH_INTERVAL_S = 0.06
NODE_IDS = (1, 2, 3)
TOPIC = TopicConfig(
    remote_storage_enable=True,
    internal_segment_bytes=600,
    index_interval_bytes=200,
    retention_ms=-1,
    local_retention_ms=-2,
    file_delete_delay_ms=0,
)


@dataclass
class SimClusterFacts:
    """What a node knows of the cluster."""

    cluster: TierCluster
    node_id: int

    def is_topic_deleted(self, partition: TopicIdPartition) -> bool:
        """Return whether a topic was deleted."""
        return partition in self.cluster.deleted

    async def catch_up(self) -> None:
        """Ask for news: an old leader learns who leads now."""
        await asyncio.sleep(self.cluster.rng.choice([0, 0.02, 1]))
        self.cluster.end_zombie(self.node_id)


class DisksOfNodes:
    """The name of the log dir shows whose file it is. Only for reading, as a storage does that copies."""

    def __init__(self, cluster: TierCluster) -> None:
        self._cluster = cluster

    def open(self, path: str, **options: Any) -> Any:
        """Open a file on the disk of the node that it belongs to."""
        return self._cluster.nodes[int(path[2])].disk.open(path, **options)

    def stat(self, path: str) -> Any:
        """Look at a file."""
        return self._cluster.nodes[int(path[2])].disk.stat(path)


class TierCluster:
    """Three replicas of one partition."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = VirtualTimeLoop()
        self.clock = SimulatedClock(self.loop)
        self.store = InmemoryRemoteStorage(cast("FileSystem", DisksOfNodes(self)))
        self.storage = FaultyStorageManager(self.store)
        self.rlmm = InmemoryRemoteLogMetadataManager()
        self.deleted: set[TopicIdPartition] = set()
        self.tier_delay_ms = self.rng.choice([1, 50, 1500])
        self.topic = replace(
            TOPIC,
            local_retention_bytes=self.rng.choice([-2, 0, 0, 1000]),
            retention_bytes=self.rng.choice([-1, -1, 2500]),
        )
        self.topic_id = new_topic_id(self.rng)
        self.model = TopicModel()
        self.nodes = {node_id: TierNode(self, node_id) for node_id in NODE_IDS}
        self.owner = 1
        self.leader_id: int | None = None
        # Whether the elected leader still has to bring its log to the end of the tier.
        self.is_settling = False
        # What the tier ended with when that leader was elected.
        self._tier_at_election: RemoteLogSegmentMetadata | None = None
        self.leader_epoch = -1
        self.isr: set[int] = set()
        self.zombies: set[int] = set()
        # Where followers fetched last in this epoch.
        self.positions: dict[int, int] = {}
        self.rebuild_count = self.unclean_count = self.remote_read_count = self.settle_count = 0
        # Limits that retention went by in the recent past, with the time at which they ended.
        self._past_limits: list[tuple[int, TopicConfig]] = []
        # Whether the topic was not tiered once, and how far the log may have been given up for that.
        self.was_untiered = False
        self.untiered_start = 0
        self._seen: set[RemoteLogSegmentId] = set()
        # What the tier held when it was looked at last, and the highest log start that any node had.
        self._finished: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
        self._highest_start = 0
        self._configs: dict[str, ServerConfig] = {}

    def config_of(self, log_dir: str) -> ServerConfig:
        """Return the settings of a node."""
        if log_dir not in self._configs:
            grace = {"crabka.remote.leftover.grace.ms": str(GRACE_MS)}
            properties = {**one_node_properties(log_dir, "h", 9), **SETTINGS, **grace}
            self._configs[log_dir] = ServerConfig.from_properties(properties)[0]
        return self._configs[log_dir]

    @property
    def name(self) -> TopicIdPartition:
        """The partition of the present topic."""
        return TopicIdPartition(self.topic_id, *NAME)

    def facts_of(self, node_id: int) -> SimClusterFacts:
        """Return what a node knows of the cluster."""
        return SimClusterFacts(self, node_id)

    @property
    def leader(self) -> TierNode | None:
        """The leader; None if there is none, or not yet."""
        return None if self.leader_id is None or self.is_settling else self.nodes[self.leader_id]

    @property
    def up(self) -> list[TierNode]:
        """The nodes that run."""
        return [node for node in self.nodes.values() if node.is_up]

    async def bounded(self, node: TierNode, work: Coroutine[Any, Any, Any]) -> None:
        """Do something on a node, which may die meanwhile."""
        task = self.loop.create_task(work)
        done, _ = await asyncio.wait({task}, timeout=HANGING_S)
        if done:
            if not task.cancelled():
                task.result()
            return
        task.cancel()
        if node.is_up:
            raise ViolationError(f"node {node.node_id} hangs")

    # -- elections -----------------------------------------------------------------------------------------------

    def elect(self, node_id: int, *, unclean: bool = False, with_zombie: bool = False) -> None:
        """Let a node lead; who led before learns of it now, or stays in its belief for a while."""
        node, before = self.nodes[node_id], self.leader_id
        if unclean:
            self.unclean_count += 1
            self.isr = {node_id}
        self.leader_epoch += 1
        self.leader_id = node_id
        self.positions = {}
        self.zombies.discard(node_id)
        if with_zombie and not self.is_settling and before not in (None, node_id) and self.nodes[before].is_up:
            self.zombies.add(before)
        self.is_settling = node.must_await_tier
        self._tier_at_election = self._newest_segment()
        if self.is_settling:
            self.settle_count += 1
            node.await_tier(functools.partial(self._on_settled, node, self.leader_epoch, unclean=unclean))
        else:
            self._begin_to_lead(node, self.leader_epoch, unclean=unclean)
        for other in self.up:
            # One that is just starting learns of it at the end of its start.
            if other is not node and other.node_id not in self.zombies and other.partition is not None:
                other.follow(node_id, self.leader_epoch)

    def _on_settled(self, node: TierNode, leader_epoch: int, *, unclean: bool) -> None:
        try:
            self._begin_to_lead(node, leader_epoch, unclean=unclean)
        except ViolationError as error:
            # A task of the node called this.
            node.failures.append(error)

    def _begin_to_lead(self, node: TierNode, leader_epoch: int, *, unclean: bool) -> None:
        if (self.leader_id, self.leader_epoch) != (node.node_id, leader_epoch) or not node.is_up:
            return
        if self.is_settling:
            self.is_settling = False
            self._check_end(node)
        if unclean:
            self.model.elect_uncleanly(node.log)
        else:
            self.model.elect(node.log)
        self.observe(node)
        node.lead(leader_epoch)
        self.advance()

    def _check_end(self, node: TierNode) -> None:
        """Check that a log that lost its end gives out no offset again that the tier has in the newest history.

        What a former leader was still copying at the election may be finished at any later time.
        """
        last = self._tier_at_election
        if last is None or node.log.log_end_offset > last.end_offset or last not in self.listed():
            # What an earlier leader began to remove for good is gone by now.
            return
        if not self._parts_from(node, last):
            raise ViolationError(f"node {node.node_id} goes on at {node.log.log_end_offset}, before the end of {last}")

    def _parts_from(self, node: TierNode, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether a log ends with a record that is not in the history of a segment: it is led as it is."""
        own = self.model.lineage(node.log)
        text = self.store.fetch_index(segment, IndexType.LEADER_EPOCH)
        epochs = [entry for entry in decode_epochs(text) if own and entry[1] <= own[-1].base_offset]
        return bool(epochs) and epochs[-1][0] != own[-1].epoch

    def _newest_segment(self) -> RemoteLogSegmentMetadata | None:
        finished = [
            each
            for each in self.listed()
            if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and not is_removal_notice(each)
        ]
        return max(finished, key=lambda each: (each.leader_epochs[-1][0], each.end_offset), default=None)

    def end_zombies(self) -> None:
        """Tell old leaders who leads now."""
        for node_id in sorted(self.zombies):
            self.end_zombie(node_id)

    def end_zombie(self, node_id: int) -> None:
        """Tell a node who leads now, if it believes in something else."""
        if node_id in self.zombies:
            self.zombies.discard(node_id)
            if self.nodes[node_id].is_up and self.leader_id is not None:
                self.nodes[node_id].follow(self.leader_id, self.leader_epoch)

    def on_crashed(self, node: TierNode) -> None:
        """Learn that a node died: it leaves the ISR unless it is the last one."""
        self.zombies.discard(node.node_id)
        if self.isr - {node.node_id}:
            self.isr.discard(node.node_id)
        if self.leader_id != node.node_id:
            return
        self.leader_id, self.is_settling = None, False
        candidates = sorted(each for each in self.isr if self.nodes[each].is_up)
        if candidates:
            self.elect(self.rng.choice(candidates))

    async def restart(self, node: TierNode) -> None:
        """Start a node that died. If it was the last one in sync it leads, whatever its disk has lost."""
        await node.start()
        if any(map(is_active_notice, self.listed())):
            # It was not there when the topic left the tier; what it has on its disk is all that it will have.
            self.untiered_start = max(self.untiered_start, node.log.local_log_start_offset)
        if self.leader_id is not None:
            node.follow(self.leader_id, self.leader_epoch)
        elif node.node_id in self.isr:
            self.elect(node.node_id, unclean=True)

    # -- replication ---------------------------------------------------------------------------------------------

    def on_fetched(self, follower_id: int, offset: int) -> None:
        """Learn how far a follower is; it may come into the ISR, and the high watermark may rise."""
        leader = self.leader
        assert leader is not None
        self.positions[follower_id] = offset
        if offset >= leader.log.high_watermark:
            self.isr.add(follower_id)
        self.advance()

    def advance(self) -> None:
        """Let the high watermark rise to where all replicas in sync are."""
        leader = self.leader
        if leader is None:
            return
        log = leader.log
        others = [self.positions.get(node_id, -1) for node_id in self.isr if node_id != self.leader_id]
        reached = min([log.log_end_offset, *others])
        if reached > log.high_watermark:
            log.set_high_watermark(reached)
        self.model.commit(log)

    async def replicate(self, rounds: int) -> None:
        """Let all followers fetch so often."""
        for _ in range(rounds):
            for node in self.up:
                leader = self.leader
                if leader is not None and node is not leader and node.is_up and node.node_id not in self.zombies:
                    await self.bounded(node, node.fetch(leader))
            await asyncio.sleep(FETCH_INTERVAL_S)

    # -- settings ------------------------------------------------------------------------------------------------

    def set_topic(self, **changes: Any) -> None:
        """Change the settings of the topic on all nodes."""
        self._past_limits.append((self.clock.now_ms(), self.topic))
        self.topic = replace(self.topic, **changes)
        self.note_forsaken()
        for node in self.up:
            if node.partition is not None:
                node.take_settings()

    def note_forsaken(self) -> None:
        """While the topic is not tiered, a log begins where its disk does."""
        if not self.topic.remote_storage_enable:
            self.was_untiered = True
            starts = [node.log.local_log_start_offset for node in self.up if node.partition is not None]
            self.untiered_start = max([self.untiered_start, *starts])

    async def recreate_topic(self) -> None:
        """Delete the topic and make a new one of the same name."""
        self.deleted.add(self.name)
        for node in self.up:
            node.let_go()
        await asyncio.sleep(self.rng.choice([0, 0.5, 3]))
        self.topic_id = new_topic_id(self.rng)
        self.model = TopicModel()
        self.untiered_start = self._highest_start = 0
        self.was_untiered = False
        self._finished.clear()
        self.leader_epoch, self.leader_id, self.is_settling = -1, None, False
        self.zombies.clear()
        for node in self.up:
            node.host()
        alive = [node.node_id for node in self.up]
        self.isr = set(alive)
        if alive:
            self.elect(self.rng.choice(alive))

    # -- what must hold at any time ------------------------------------------------------------------------------

    def observe(self, node: TierNode) -> None:
        """Check that what a log lost at its start was lost by right; it is no longer required."""
        if node.partition is None or node.partition.topic_id != self.topic_id:
            return
        self.note_forsaken()
        self._highest_start = max(self._highest_start, node.log.log_start_offset)
        start, owed = node.log.log_start_offset, self.model.owed
        gone = [batch for batch in node.seen_batches if batch.last_offset < start and batch.key in owed]
        node.seen_batches = self.model.lineage(node.log)
        if gone:
            self._justify(node, gone)
            self.model.let_go(batch.key for batch in gone)

    def _justify(self, node: TierNode, gone: list[WrittenBatch]) -> None:
        now_ms = self.clock.now_ms()
        self._past_limits = [entry for entry in self._past_limits if entry[0] > now_ms - LATE_MS]
        limits = [self.topic, *(config for _, config in self._past_limits)]
        times = [config.retention_ms for config in limits if config.retention_ms >= 0]
        sizes = [config.retention_bytes for config in limits if config.retention_bytes >= 0]
        left = sum(len(batch.data) for batch in node.seen_batches)
        if sizes and left >= min(sizes):
            return
        for batch in gone:
            is_old = bool(times) and batch.newest_ms <= now_ms - min(times)
            if not is_old and batch.last_offset >= self.untiered_start:
                raise ViolationError(
                    f"node {node.node_id} starts at {node.log.log_start_offset} and no leader could delete offset "
                    f"{batch.base_offset}, with {left} bytes left and limits of {times} ms, {sizes} bytes"
                )

    def listed(self) -> list[RemoteLogSegmentMetadata]:
        """Return what the metadata knows of the present topic."""
        known = self.name in self.rlmm.partitions()
        return list(self.rlmm.list_remote_log_segments(self.name)) if known else []

    def check_always(self) -> None:
        """Check what holds at every moment."""
        for node in self.nodes.values():
            if node.failures:
                raise ViolationError(f"node {node.node_id} failed: {node.failures}")
        self.advance()
        # Others take over what the leader decides, also those that believe to lead themselves.
        for node in sorted(self.up, key=lambda node: node.node_id != self.leader_id):
            self.observe(node)
        self._check_removals()
        for segment in self.listed():
            if is_removal_notice(segment):
                continue
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and segment.segment_id not in self._seen:
                self._seen.add(segment.segment_id)
                for batch in batches_in(bytes(self.store.fetch_log_segment(segment, 0))):
                    if self.model.written.get(batch.key) != batch:
                        raise ViolationError(f"{segment.segment_id} has what was never written at {batch.base_offset}")
                    if batch.key not in self.model.committed:
                        raise ViolationError(f"{segment.segment_id} has {batch.key}, which was never committed")

    def _check_removals(self) -> None:
        """Check that only what lies below a log start is removed, unless the topic has left the tier."""
        finished = {
            each.segment_id: each
            for each in self.listed()
            if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and not is_removal_notice(each)
        }
        limit = max(self._highest_start, self.untiered_start)
        for name, segment in self._finished.items():
            if name not in finished and segment.end_offset >= limit and not self.was_untiered:
                raise ViolationError(f"{segment} is removed by no right: all logs begin at {limit} or before")
        self._finished = finished
