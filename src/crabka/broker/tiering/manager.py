"""Tiered storage of one broker (KIP-405, RemoteLogManager): which partitions are copied, expired and deleted, and when.

The metadata publisher notifies it of leadership, settings and deleted topics. Until the metadata of the tier is known
its tasks wait, and the broker serves local data. Without `remote.log.storage.system.enable` there is no manager.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.broker.tiering.copy.copier import CopyTask, SegmentCopier
from crabka.broker.tiering.expire.deletion import PartitionRemover, SegmentRemover
from crabka.broker.tiering.expire.expirer import ExpiryTask
from crabka.broker.tiering.expire.orphans import OrphanSweep
from crabka.broker.tiering.expire.purge import TierPurge
from crabka.broker.tiering.expire.untiered import UntieredPartitions
from crabka.broker.tiering.limits import ByteRateQuota, TierPool
from crabka.broker.tiering.partition_tasks import FollowerTask, LeaderGate, PartitionTasks, RepeatedTask
from crabka.errors import InvariantError, StorageError
from crabka.remote.errors import NotReadyError
from crabka.remote.segments import TopicIdPartition
from crabka.runtime.task_scope import TaskScope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabka.broker.partition.partition import Partition
    from crabka.broker.tiering.bootstrap.leader_start import LeaderStart
    from crabka.broker.tiering.expire.orphans import ClusterFacts
    from crabka.broker.tiering.metadata.tier_metadata import TierMetadataManager
    from crabka.broker.tiering.tools import TierTools
    from crabka.errors import CrabkaError
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.remote.segments import RemoteLogSegmentId

logger = logging.getLogger(__name__)

# How long a stop waits for uploads in progress; unfinished ones become leftovers of an earlier run.
CLOSING_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class TierHooks:
    """What the manager needs from the rest of the broker."""

    # Starts the manager of the tier's metadata; returns once the cluster has its topic.
    start_metadata: Callable[[], Awaitable[TierMetadataManager]]
    # Stops what was started.
    stop_metadata: Callable[[], Awaitable[None]]
    cluster: ClusterFacts
    on_dir_failure: Callable[[str, Exception], None]
    on_broken_invariant: Callable[[CrabkaError], None]
    # Brings logs that may lack their end to the end of the tier.
    leader_start: LeaderStart


class TieringManager:
    """The tiering of a broker. Everything runs on the node's loop; slow work is in pools of its own."""

    def __init__(self, tools: TierTools, hooks: TierHooks) -> None:
        self.tools = tools
        self._hooks = hooks
        runtime, config = tools.runtime, tools.config
        self._copy_pool = TierPool(runtime, "remote-copy", lambda: config().remote_log_manager_copier_thread_pool_size)
        self._delete_pool = TierPool(
            runtime, "remote-expiration", lambda: config().remote_log_manager_expiration_thread_pool_size
        )
        self._segments = SegmentRemover(tools, self._delete_pool)
        self._removers = PartitionRemover(tools, self._segments)
        quota = ByteRateQuota(
            lambda: config().remote_log_manager_copy_max_bytes_per_second,
            sample_count=config().remote_log_manager_copy_quota_window_num,
            sample_ms=config().remote_log_manager_copy_quota_window_size_seconds * 1000,
        )
        self._copier = SegmentCopier(tools, self._copy_pool, self._segments, quota)
        self._hosted: dict[TopicIdPartition, PartitionTasks] = {}
        # Partitions whose remote data is being removed by this broker.
        self._removing: set[TopicIdPartition] = set()
        self._untiered = UntieredPartitions(tools)
        # For partitions that are not led before the end of the tier is known.
        self._searches: dict[TopicIdPartition, RepeatedTask] = {}
        self._purge = TierPurge(tools, self._segments, hooks.cluster.catch_up)
        self._sweep = OrphanSweep(tools, self._removers, hooks.cluster, is_busy=self._is_busy)
        self._scope = TaskScope(on_failure=self._on_failure)
        self._starting: asyncio.Task[Any] | None = None
        self._is_retiring = False

    @property
    def is_ready(self) -> bool:
        """Whether the manager of the tier's metadata has started."""
        return self._starting is not None and self._starting.done()

    def subscribe_removed(self, listener: Callable[[RemoteLogSegmentId], None]) -> None:
        """Call `listener` with every segment that this broker removes, so that caches drop it."""
        self._segments.on_removed = listener

    def start(self) -> None:
        """Start the manager of the metadata and the search for unfinished deletions, in the background."""
        self._starting = self._scope.start(self._start_metadata())
        self._scope.start(self._sweep_forever())

    # -- changes of the cluster's metadata -----------------------------------------------------------------------------

    def on_leadership(self, partition: Partition) -> None:
        """Start or continue the tasks of a partition whose role, epoch or settings may have changed."""
        name = TopicIdPartition(partition.topic_id, partition.topic, partition.index)
        tasks = self._hosted.get(name)
        self._end_search(name)
        if not partition.log.is_tiered:
            self._leave_untiered(name, tasks, partition)
            return
        self._untiered.end(name)
        if tasks is not None and tasks.is_leader == partition.is_leader and tasks.log is partition.log:
            tasks.take_epoch(partition.leader_epoch)
            return
        if tasks is not None:
            tasks.stop()
            self.tools.stats.forget(name.topic_partition)
        if self._is_retiring:
            return
        self._notify_role(name, is_leader=partition.is_leader)
        self._hosted[name] = self._run(name, partition)

    def bring_to_tier_end(self, partition: Partition, on_settled: Callable[[], None]) -> None:
        """Let a log that may lack its end begin at the end of the tier; call `on_settled` when it may be led.

        Retries until that is done, or the partition has another role. A log that cannot be compared is not led.
        """
        if self._is_retiring:
            return
        name = TopicIdPartition(partition.topic_id, partition.topic, partition.index)
        logger.info(
            "%s may lack records at its end, %d: it is not led before the end of the remote tier is known",
            name.topic_partition,
            partition.log.log_end_offset,
        )
        search = self._searches[name] = RepeatedTask(self.tools, str(name), on_failure=self._on_failure)
        self._notify_role(name, is_leader=True)
        self._scope.start(self._search_end(name, partition, search, on_settled))

    async def _search_end(
        self, name: TopicIdPartition, partition: Partition, search: RepeatedTask, on_settled: Callable[[], None]
    ) -> None:
        is_settled = False

        async def run_once() -> None:
            nonlocal is_settled
            await self._end_removal(name, partition.log)
            await self._hooks.leader_start.settle(name, partition, lambda: search.is_wanted)
            is_settled = search.is_wanted
            search.stop()

        await search.run(run_once)
        if is_settled:
            on_settled()

    async def _end_removal(self, name: TopicIdPartition, source: PartitionLog) -> None:
        """Withdraw a removal that an earlier leader only announced, or finish one that it began.

        Raises NotReadyError, RemoteStorageError.
        """
        metadata = self.tools.metadata
        metadata.require_ready(name)
        if name in self._removing:
            raise NotReadyError(f"what the tier has of {name} is being removed")
        await metadata.catch_up(name)
        if metadata.active_notices(name):
            await self._purge.settle(name, source)

    def _end_search(self, name: TopicIdPartition) -> bool:
        """Stop the search for the end of a partition in the tier; return whether one was running."""
        search = self._searches.pop(name, None)
        if search is not None:
            search.stop()
        return search is not None

    def on_stop(self, partition: Partition, *, is_deleted: bool) -> None:
        """Stop the tasks of a partition that moved or was deleted; its last leader removes deleted data."""
        name = TopicIdPartition(partition.topic_id, partition.topic, partition.index)
        tasks = self._hosted.pop(name, None)
        was_untiered = self._untiered.end(name)
        was_to_lead = self._end_search(name) or was_untiered
        if tasks is not None:
            tasks.stop()
            self.tools.stats.forget(name.topic_partition)
            was_to_lead = was_to_lead or tasks.is_leader
        elif not was_to_lead or name in self._removing:
            # A running removal ends first; the sweep finds what is left then.
            return
        if is_deleted and was_to_lead:
            self._scope.start(self._remove_all(name, tasks, self._removers.delete))
        else:
            self.tools.metadata.on_stop_partitions([name])

    def _leave_untiered(self, name: TopicIdPartition, tasks: PartitionTasks | None, partition: Partition) -> None:
        """Stop the tasks of a topic that is not tiered any more (KIP-950); a leader may have to empty the tier.

        A former leader may have left that unfinished, so every new leader checks.
        """
        if tasks is not None:
            del self._hosted[name]
            tasks.stop()
            self.tools.stats.forget(name.topic_partition)
        goes = partition.log.config.remote_log_delete_on_disable
        if not (goes and partition.is_leader):
            was_untiered = self._untiered.end(name)
            if tasks is not None or (was_untiered and name not in self._removing):
                self.tools.metadata.on_stop_partitions([name])
        elif self._untiered.begin(name, partition) or tasks is not None:
            self._notify_role(name, is_leader=True)
            self._remove_untiered(name, tasks, partition)

    def _remove_untiered(self, name: TopicIdPartition, tasks: PartitionTasks | None, partition: Partition) -> None:
        self._scope.start(self._remove_all(name, tasks, functools.partial(self._empty_tier, partition.log)))

    def _run(self, name: TopicIdPartition, partition: Partition) -> PartitionTasks:
        source: PartitionLog = partition.log
        tasks = PartitionTasks(
            self.tools,
            name,
            source,
            is_leader=partition.is_leader,
            leader_epoch=partition.leader_epoch,
            on_failure=self._on_failure,
        )
        start = self._scope.start
        if partition.is_leader:
            copying = CopyTask(self.tools, self._copier, name, source, lambda: tasks.is_wanted)
            expiring = ExpiryTask(
                self.tools,
                self._copier,
                self._segments,
                partition=name,
                source=source,
                is_wanted=lambda: tasks.is_wanted,
                catch_up=self._hooks.cluster.catch_up,
            )
            gate = LeaderGate(self.tools, self._purge, copying, partition=name, source=source, removing=self._removing)
            tasks.on_epoch = gate.renew
            tasks.start(start, gate.copy)
            tasks.start(start, functools.partial(gate.run, expiring.run_once))
        else:
            following = FollowerTask(self.tools, name, source)
            tasks.on_epoch = following.renew
            tasks.start(start, following.run_once)
        return tasks

    def _notify_role(self, name: TopicIdPartition, *, is_leader: bool) -> None:
        leaders, followers = ([name], []) if is_leader else ([], [name])
        self.tools.metadata.on_partition_leadership_changes(leaders, followers)

    # -- removing all of a partition -----------------------------------------------------------------------------------

    async def _remove_all(
        self,
        name: TopicIdPartition,
        tasks: PartitionTasks | None,
        remove: Callable[[TopicIdPartition], Awaitable[None]],
    ) -> None:
        """Remove after uploads in progress have ended; retries until it is done."""
        self._removing.add(name)
        removal = RepeatedTask(self.tools, str(name), on_failure=self._on_failure)

        async def run_once() -> None:
            await remove(name)
            removal.stop()

        try:
            if tasks is not None:
                await tasks.wait_ended()
            await removal.run(run_once)
        finally:
            self._removing.discard(name)
            if not any(name in known for known in (self._hosted, self._untiered, self._searches)):
                self.tools.metadata.on_stop_partitions([name])

    async def _empty_tier(self, source: PartitionLog, name: TopicIdPartition) -> None:
        """Move the log start to the local log start, then remove what the tier has of it."""
        if not source.is_tiered:
            source.retention.raise_log_start(source.local_log_start_offset)
            await self.tools.save_log_starts([source.log_dir])
        await self._purge.purge(name, source, lambda: name in self._untiered)

    def _is_busy(self, name: TopicIdPartition) -> bool:
        return name in self._removing or name in self._hosted

    async def _sweep_forever(self) -> None:
        config = self.tools.config
        while True:
            await asyncio.sleep(config().remote_log_manager_task_interval_ms / 1000)
            try:
                for name, partition in self._untiered.due(self._removing):
                    self._remove_untiered(name, None, partition)
                await self._sweep.run_once()
            except Exception as error:
                logger.warning("The search for data to remove from the tier failed: %s", error, exc_info=error)

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def _start_metadata(self) -> None:
        started = await self._hooks.start_metadata()
        started.subscribe_doubts(self._on_doubt)
        self.tools.metadata.install(started)
        logger.info("The metadata of the remote tier is available")

    def _on_doubt(self) -> None:
        """Discard conclusions from earlier metadata of partitions that are not ready any more."""
        for name, tasks in self._hosted.items():
            if not self.tools.metadata.is_ready(name):
                tasks.log.tiering.doubt_remote_offset()
                tasks.on_epoch()

    def retire(self) -> None:
        """Take no new role from now on: the broker hands over its partitions, and stops.

        A new role reads the metadata topic to its end. The last broker to stop has led all of that topic, so its stop
        would wait for a response that never comes.
        """
        self._is_retiring = True

    async def close(self) -> None:
        """Stop: no new uploads, a short wait for those in progress, then close the tier."""
        for search in self._searches.values():
            search.stop()
        for tasks in self._hosted.values():
            tasks.stop()
        running = [loop for tasks in self._hosted.values() for loop in tasks.loops if not loop.done()]
        late: set[asyncio.Task[Any]] = set()
        if running:
            _, late = await asyncio.wait(running, timeout=CLOSING_MS / 1000)
        await self._scope.close()
        # A thread that still uploads is not waited for: what it writes is a leftover.
        self._copy_pool.close(wait=not late)
        self._delete_pool.close(wait=not late)
        await self._hooks.stop_metadata()
        self.tools.storage.close()

    def _on_failure(self, error: BaseException) -> None:
        if isinstance(error, StorageError):
            self._hooks.on_dir_failure(error.log_dir, error)
        elif isinstance(error, InvariantError):
            self._hooks.on_broken_invariant(error)
        else:
            logger.error("A task of the remote tier failed", exc_info=error)
