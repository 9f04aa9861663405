"""Lets a replica begin anew that cannot be repaired in place: it gives up its part, drops its log, and follows.

A leader hands over and a follower leaves the ISR by the same request: the controller gets a report that the replica's
log dir is lost to it (AssignReplicasToDirs with the directory id LOST, KIP-858), as after a failure of the disk. Only
when the metadata shows that this replica neither leads nor is in sync nor is eligible (KIP-966) is its log dropped, so
at no time does the cluster count on records that it does not hold. Then it follows from the leader's log start, and the
controller gets a report of its log dir, so that it may join the ISR once it has everything.

A leader takes a follower into the ISR for a fetch, and one that was sent before may still be on its way. So nothing is
fetched any more from the start, and before the log is dropped the broker waits for `broker.session.timeout.ms` and
reports the loss once more: by then a leader has handled the fetch, and what came of it is undone, or it is fenced.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from crabka.errors import CrabkaError
from crabka.ids import DIRECTORY_LOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.controller_link.directory_reports import DirectoryReports
    from crabka.broker.partition.partition import Partition
    from crabka.broker.replication.fetchers import ReplicaFetchers
    from crabka.ids import DirectoryId
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage
    from crabka.ports import Runtime

_WAIT_MS: Final = 30_000
_POLL_MS: Final = 50


class RebuildRefusedError(CrabkaError):
    """A replica must not begin anew now."""


def rebuild_refusal(partition: PartitionImage, node_id: int, min_insync_replicas: int) -> str:
    """Return why a replica must not be dropped now, empty if it may: others must keep what is acknowledged."""
    if node_id not in partition.replicas:
        return "this broker has no replica"
    others = len([each for each in partition.isr if each != node_id])
    needed = max(1, min(min_insync_replicas, len(partition.replicas) - 1))
    if others < needed:
        return f"{others} other replicas are in sync, and {needed} are needed"
    return ""


def is_out(partition: PartitionImage, node_id: int) -> bool:
    """Return whether no acknowledgement rests on a replica: it does not lead and cannot without catching up."""
    return partition.leader not in (node_id, -1) and node_id not in (*partition.isr, *partition.elr)


class ReplicaRebuilder:
    """Drops and fetches again replicas of one node. All methods run on the loop."""

    def __init__(
        self,
        runtime: Runtime,
        logs: LogManager,
        fetchers: ReplicaFetchers,
        *,
        node_id: int,
        image: Callable[[], MetadataImage],
        fence_ms: Callable[[], int],
    ) -> None:
        """`fence_ms` is how long a broker that stands still is taken for alive."""
        self._runtime = runtime
        self._logs = logs
        self._fetchers = fetchers
        self._node_id = node_id
        self._image = image
        self._fence_ms = fence_ms
        # Known when the broker is put together.
        self.directories: DirectoryReports | None = None

    async def rebuild(self, partition: Partition) -> None:
        """Let a replica begin anew; returns when it follows. Raises RebuildRefusedError, StorageError.

        A stop leaves the replica reported as lost: the next start reports where it is.
        """
        known = self._known(partition)
        minimum = partition.log.config.min_insync_replicas
        refusal = "the partition is gone" if known is None else rebuild_refusal(known, self._node_id, minimum)
        if refusal or self.directories is None:
            raise RebuildRefusedError(refusal or "the broker starts")
        try:
            await self._begin_anew(partition, self.directories)
        except Exception:
            await self._come_back(partition)
            raise
        await self._come_back(partition)

    async def _begin_anew(self, partition: Partition, directories: DirectoryReports) -> None:
        placement = (partition.topic_id, partition.index)
        directories.hold(placement)
        self._fetchers.hold(partition)
        try:
            await self._leave(partition)
            await asyncio.sleep(self._fence_ms() / 1000)
            await self._leave(partition)
            await self._drop(partition)
        finally:
            self._fetchers.release(partition)
            directories.release(placement)

    async def _leave(self, partition: Partition) -> None:
        """Take this replica out of the ISR, as the metadata shows."""
        if not await self._report(partition, DIRECTORY_LOST):
            raise RebuildRefusedError("the controller does not take it")
        await self._wait_out(partition)

    def _known(self, partition: Partition) -> PartitionImage | None:
        topic = self._image().topics.by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions.get(partition.index)

    async def _report(self, partition: Partition, directory: DirectoryId) -> bool:
        if self.directories is None:
            return False
        return await self.directories.send({directory: {partition.topic_id: [partition.index]}})

    async def _wait_out(self, partition: Partition) -> None:
        deadline_ms = self._runtime.clock.monotonic_ms() + _WAIT_MS
        while (known := self._known(partition)) is not None:
            if is_out(known, self._node_id) and not partition.is_leader:
                return
            if self._runtime.clock.monotonic_ms() > deadline_ms:
                raise RebuildRefusedError("it still leads, or is in sync or eligible")
            await asyncio.sleep(_POLL_MS / 1000)
        raise RebuildRefusedError("the partition is gone")

    async def _drop(self, partition: Partition) -> None:
        """Drop the log while nothing else changes it; the recovery point is lowered on disk before and after."""
        log = partition.log
        async with partition.queue.turn():
            if log.is_being_written:
                await partition.writer.drain()
            log.truncation.announce(0)
            try:
                await self._logs.save_recovery_points([log.log_dir])
                known = self._known(partition)
                if self._logs.get(log.topic_partition) is not log or known is None:
                    raise RebuildRefusedError("the partition is gone")
                if not is_out(known, self._node_id) or partition.is_leader:
                    raise RebuildRefusedError("it counts again")
                log.truncation.truncate_fully(log.log_start_offset, now_ms=self._runtime.clock.now_ms())
            finally:
                log.truncation.withdraw()
            await self._logs.save_recovery_points([log.log_dir])

    async def _come_back(self, partition: Partition) -> None:
        directory = self._logs.directory_id(partition.log.log_dir)
        if directory is None or self.directories is None:
            return
        if not await self._report(partition, directory):
            # A report that failed is repeated until the controller takes it.
            await self.directories.report(self._image(), [partition])
            await self.directories.keep_reporting()
