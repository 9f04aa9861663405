"""Tiered storage of one broker (KIP-405, RemoteLogManager): who copies, expires and deletes what, and when.

It is told of leadership, settings and deleted topics by the metadata publisher. Until the metadata of the tier is known
it only waits; the broker serves local data meanwhile. Without `remote.log.storage.system.enable` there is none of this.
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
from crabka.broker.tiering.expire.untiered import ForsakenPartitions
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

# How long a stop waits for uploads on their way; what is not done then is a leftover of an earlier run.
CLOSING_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class TierHooks:
    """What the manager asks of the rest of the broker."""

    # Starts the manager of the tier's metadata; it may take as long as the cluster needs to have its topic.
    start_metadata: Callable[[], Awaitable[TierMetadataManager]]
    # Stops what was started.
    stop_metadata: Callable[[], Awaitable[None]]
    cluster: ClusterFacts
    on_dir_failure: Callable[[str, Exception], None]
    on_broken_invariant: Callable[[CrabkaError], None]
    # Brings logs that may lack their end to the end of the tier.
    leader_start: LeaderStart


class TieringManager:
    """What the broker holds of the tier. Everything runs on the node's loop; slow work is in pools of its own."""

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
        self._forsaken = ForsakenPartitions(tools)
        # Of partitions that are not led before the end of the tier is known.
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
        """Call `listener` with every segment that this broker removed from the tier, so that caches forget it."""
        self._segments.on_removed = listener

    def start(self) -> None:
        """Begin to start the manager of the metadata, and to look for deletions that nobody finished."""
        self._starting = self._scope.start(self._start_metadata())
        self._scope.start(self._sweep_again_and_again())

    # -- what the metadata of the cluster says -------------------------------------------------------------------------

    def on_leadership(self, partition: Partition) -> None:
        """Take over that this broker leads or follows a partition, in whatever epoch, or that its settings changed."""
        name = TopicIdPartition(partition.topic_id, partition.topic, partition.index)
        tasks = self._hosted.get(name)
        self._end_search(name)
        if not partition.log.is_tiered:
            self._leave_untiered(name, tasks, partition)
            return
        self._forsaken.end(name)
        if tasks is not None and tasks.is_leader == partition.is_leader and tasks.log is partition.log:
            tasks.take_epoch(partition.leader_epoch)
            return
        if tasks is not None:
            tasks.stop()
            self.tools.stats.forget(name.topic_partition)
        if self._is_retiring:
            return
        self._tell_role(name, is_leader=partition.is_leader)
        self._hosted[name] = self._run(name, partition)

    def bring_to_tier_end(self, partition: Partition, on_settled: Callable[[], None]) -> None:
        """Let a log that may lack its end begin after what the tier holds; call `on_settled` when it may be led.

        Tries until that is done, or the partition has another role. A log that cannot be compared is not led.
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
        self._tell_role(name, is_leader=True)
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
        """Withdraw what an earlier leader only announced to remove, or end what it began: the rest is the tier's end.

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
        """Stop looking for the end of a partition in the tier; return whether that was under way."""
        search = self._searches.pop(name, None)
        if search is not None:
            search.stop()
        return search is not None

    def on_stop(self, partition: Partition, *, is_deleted: bool) -> None:
        """Let go of a partition that moved elsewhere, or whose topic was deleted; who led it then removes its data."""
        name = TopicIdPartition(partition.topic_id, partition.topic, partition.index)
        tasks = self._hosted.pop(name, None)
        was_forsaken = self._forsaken.end(name)
        was_to_lead = self._end_search(name) or was_forsaken
        if tasks is not None:
            tasks.stop()
            self.tools.stats.forget(name.topic_partition)
            was_to_lead = was_to_lead or tasks.is_leader
        elif not was_to_lead or name in self._removing:
            # A removal that is under way ends first; the sweep finds what is left then.
            return
        if is_deleted and was_to_lead:
            self._scope.start(self._remove_all(name, tasks, self._removers.delete))
        else:
            self.tools.metadata.on_stop_partitions([name])

    def _leave_untiered(self, name: TopicIdPartition, tasks: PartitionTasks | None, partition: Partition) -> None:
        """Stop if the topic was tiered (KIP-950). Who leads it removes what is in the tier, if that shall go.

        A leader before this one may have begun that and not finished, so every new one looks.
        """
        if tasks is not None:
            del self._hosted[name]
            tasks.stop()
            self.tools.stats.forget(name.topic_partition)
        goes = partition.log.config.remote_log_delete_on_disable
        if not (goes and partition.is_leader):
            was_forsaken = self._forsaken.end(name)
            if tasks is not None or (was_forsaken and name not in self._removing):
                self.tools.metadata.on_stop_partitions([name])
        elif self._forsaken.begin(name, partition) or tasks is not None:
            self._tell_role(name, is_leader=True)
            self._remove_forsaken(name, tasks, partition)

    def _remove_forsaken(self, name: TopicIdPartition, tasks: PartitionTasks | None, partition: Partition) -> None:
        self._scope.start(self._remove_all(name, tasks, functools.partial(self._forsake, partition.log)))

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

    def _tell_role(self, name: TopicIdPartition, *, is_leader: bool) -> None:
        leaders, followers = ([name], []) if is_leader else ([], [name])
        self.tools.metadata.on_partition_leadership_changes(leaders, followers)

    # -- removing all of a partition -----------------------------------------------------------------------------------

    async def _remove_all(
        self,
        name: TopicIdPartition,
        tasks: PartitionTasks | None,
        remove: Callable[[TopicIdPartition], Awaitable[None]],
    ) -> None:
        """Remove, behind an upload that may be on its way; again and again until it is done."""
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
            if not any(name in known for known in (self._hosted, self._forsaken, self._searches)):
                self.tools.metadata.on_stop_partitions([name])

    async def _forsake(self, source: PartitionLog, name: TopicIdPartition) -> None:
        """Let the log begin where its local part does, then remove what the tier has of it."""
        if not source.is_tiered:
            source.retention.raise_log_start(source.local_log_start_offset)
            await self.tools.save_log_starts([source.log_dir])
        await self._purge.purge(name, source, lambda: name in self._forsaken)

    def _is_busy(self, name: TopicIdPartition) -> bool:
        return name in self._removing or name in self._hosted

    async def _sweep_again_and_again(self) -> None:
        config = self.tools.config
        while True:
            await asyncio.sleep(config().remote_log_manager_task_interval_ms / 1000)
            try:
                for name, partition in self._forsaken.due(self._removing):
                    self._remove_forsaken(name, None, partition)
                await self._sweep.run_once()
            except Exception as error:
                logger.warning("Looking for what is to be removed from the tier failed: %s", error, exc_info=error)

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def _start_metadata(self) -> None:
        started = await self._hooks.start_metadata()
        started.subscribe_doubts(self._on_doubt)
        self.tools.metadata.install(started)
        logger.info("The metadata of the remote tier is at hand")

    def _on_doubt(self) -> None:
        """Let nothing go by what the metadata said so far of partitions for which it is not ready any more."""
        for name, tasks in self._hosted.items():
            if not self.tools.metadata.is_ready(name):
                tasks.log.tiering.doubt_remote_offset()
                tasks.on_epoch()

    def retire(self) -> None:
        """Take no new role from now on: the broker hands over what it leads, and stops.

        Whoever follows asks the leaders of the metadata topic how far it goes, and the last broker to stop has led all
        of it: the stop would wait for answers that nobody gives.
        """
        self._is_retiring = True

    async def close(self) -> None:
        """Stop: no new uploads, a moment for those on their way, then let go of the tier."""
        for search in self._searches.values():
            search.stop()
        for tasks in self._hosted.values():
            tasks.stop()
        running = [loop for tasks in self._hosted.values() for loop in tasks.loops if not loop.done()]
        late: set[asyncio.Task[Any]] = set()
        if running:
            _, late = await asyncio.wait(running, timeout=CLOSING_MS / 1000)
        await self._scope.close()
        # A thread that still uploads is nobody's any more: what it writes is a leftover.
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
