"""Which metadata partitions this node reads, and how each becomes ready (KIP-405).

It reads those that hold events of partitions it leads or follows, and those that it leads itself: the leader of a
metadata partition finishes the deletion of topics that have no leader any more. One task compares what is wanted with
what is read and retries failures. A partition that was read before continues at its last offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from crabka.clients.cluster.backoff import Backoff
from crabka.errors import CrabkaError
from crabka.ports import Runtime
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import TopicIdPartition
from crabka.remote_topic.event_log import EventBatch, MetadataEventLog
from crabka.remote_topic.metadata_partition import MetadataPartition
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.snapshot import load_snapshot

RETRY_MS = 100
MAX_RETRY_MS = 5_000

logger = logging.getLogger(__name__)


class MetadataAssignment:
    """The metadata partitions and which of them are read. Everything but `partitions` belongs to the loop."""

    def __init__(self, runtime: Runtime, event_log: MetadataEventLog, directory: str) -> None:
        self._runtime = runtime
        self._event_log = event_log
        self._directory = directory
        self.topic_id = event_log.topic_id
        # All of the topic, by number; replaced as a whole if the topic is.
        self.partitions = _fresh_partitions(event_log)
        # With their metadata partitions.
        self._hosted: dict[TopicIdPartition, int] = {}
        self._own: frozenset[int] = frozenset()
        self._changed = asyncio.Event()
        # Called when partitions that were ready may not be ready any more: what was read from them may be wrong.
        self.on_doubt: Callable[[], None] = lambda: None

    @property
    def wanted(self) -> set[int]:
        """The metadata partitions that are to be read."""
        return {*self._hosted.values(), *(number for number in self._own if number < len(self.partitions))}

    @property
    def own(self) -> frozenset[int]:
        """The metadata partitions that this node leads."""
        return self._own

    def host(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Note that this node has replicas of partitions."""
        count = len(self.partitions)
        self._hosted.update((partition, metadata_partition_for(partition, count)) for partition in partitions)
        self._changed.set()

    def unhost(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Note that this node has no replicas of partitions any more."""
        for partition in partitions:
            self._hosted.pop(partition, None)
        self._changed.set()

    def set_own(self, numbers: Iterable[int]) -> None:
        """Note which metadata partitions this node leads."""
        self._own = frozenset(numbers)
        self._changed.set()

    def deliver(self, batch: EventBatch) -> None:
        """Apply events of a partition that is read."""
        partition = self.partitions[batch.partition]
        if partition.is_assigned:
            partition.apply(batch)

    def suspend(self, partitions: Collection[int]) -> None:
        """Make partitions unreadable until their new leaders confirm what is known."""
        for number in partitions:
            self.partitions[number].suspend()
        self.on_doubt()

    def start_over(self, partitions: Collection[int]) -> None:
        """Forget what is known of partitions, or of all if the topic is another one now."""
        if self._event_log.topic_id == self.topic_id:
            for number in partitions:
                self.partitions[number].start_over()
        else:
            self._replace_topic()
        self._changed.set()
        self.on_doubt()

    async def run(self) -> None:
        """Keep what is read in line with what is wanted, until cancelled."""
        backoff = Backoff(self._runtime.rng, RETRY_MS, MAX_RETRY_MS)
        while True:
            self._changed.clear()
            is_complete = await self._reconcile()
            if is_complete:
                backoff.reset()
            try:
                async with asyncio.timeout(None if is_complete else backoff.next_ms() / 1000):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _reconcile(self) -> bool:
        """Take one step towards what is wanted; return whether nothing is left to do."""
        wanted = self.wanted
        for partition in self.partitions:
            if partition.is_assigned and partition.number not in wanted:
                self._event_log.stop(partition.number)
                partition.unassign()
        for number in sorted(wanted):
            await self._assign(number)
        return await self._set_targets()

    async def _assign(self, number: int) -> None:
        partition = self.partitions[number]
        if partition.is_assigned:
            return
        if not partition.is_loaded:
            partition.load(*await self._runtime.threads.submit(self._load, number))
        # Another topic may have replaced this one during the load.
        if number < len(self.partitions) and self.partitions[number] is partition:
            partition.assign()
            self._event_log.consume(number, partition.next_offset, partition.leader_epoch)

    def _load(self, number: int) -> tuple[InmemoryRemoteLogMetadataManager, int, int]:
        """Return what the snapshot of a partition has, and its place; runs in a thread."""
        view = InmemoryRemoteLogMetadataManager()
        snapshot = load_snapshot(
            self._runtime.fs,
            self._directory,
            topic_id=self.topic_id,
            partition_count=len(self.partitions),
            partition=number,
        )
        if snapshot is None:
            return view, 0, -1
        view.load(snapshot.dump)
        return view, snapshot.next_offset, snapshot.leader_epoch

    async def _set_targets(self) -> bool:
        """Request the end offsets of partitions that are not ready; return whether there are none.

        Those that have a target are included: a leader that was elected since may have fewer events.
        """
        waiting = [partition for partition in self.partitions if partition.is_assigned and partition.readable is None]
        if not waiting:
            return True
        places = [(partition.histories, partition.next_offset) for partition in waiting]
        try:
            ends = await self._event_log.end_offsets([partition.number for partition in waiting])
        except CrabkaError as error:
            logger.warning("the ends of %d metadata partitions are not known: %s", len(waiting), error)
            return False
        for partition, (history, next_offset) in zip(waiting, places, strict=True):
            end = ends.get(partition.number)
            # The end of a history that was dropped since may be an offset that the new one never reaches.
            if end is None or not partition.is_assigned or partition.histories != history:
                continue
            if end < next_offset:
                logger.warning("metadata partition %d lost events that were read before", partition.number)
                partition.start_over()
                self._event_log.consume(partition.number, 0)
                self.on_doubt()
            partition.aim(end)
        return all(partition.readable is not None for partition in waiting)

    def _replace_topic(self) -> None:
        logger.error("the metadata topic was replaced by another one: its metadata of remote segments is lost")
        for partition in self.partitions:
            if partition.is_assigned:
                self._event_log.stop(partition.number)
                partition.unassign()
        self.topic_id = self._event_log.topic_id
        self.partitions = _fresh_partitions(self._event_log)
        self.host(list(self._hosted))


def _fresh_partitions(event_log: MetadataEventLog) -> list[MetadataPartition]:
    return [MetadataPartition(number) for number in range(event_log.partition_count)]
