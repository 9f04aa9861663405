"""The metadata of the remote tier, kept in a topic that all brokers read (KIP-405).

Reads return from memory, in any thread. A change is an event: it is published, and it counts once this node has read it
back. By then the state machine has accepted or refused it, in the same order as on every other broker. On the loop
changes are coroutines; other threads use the blocking methods of the port.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import lru_cache
from typing import Any, NamedTuple

from crabka.errors import CrabkaError, InvariantError
from crabka.ports import Runtime
from crabka.remote.errors import NotReadyError, RemoteBackendError, RemoteStorageError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.lifecycle import require_segment_add
from crabka.remote.metadata_manager import RemoteLogMetadataManager
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from crabka.remote_topic.assignment import MetadataAssignment
from crabka.remote_topic.event_log import MetadataEventLog
from crabka.remote_topic.event_reader import MetadataEvent
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import RemoteTopicSettings
from crabka.remote_topic.snapshot_keeper import MetadataSnapshotKeeper
from crabka.runtime.task_scope import TaskScope

SNAPSHOT_INTERVAL_MS = 60_000
_KNOWN_PARTITIONS = 65_536
# What a thread waits in addition to the timeout on the loop.
_LOOP_DELAY_MS = 5_000


class MetadataStatus(NamedTuple):
    """Numbers of metadata partitions, and of their events since the start."""

    assigned: int
    ready: int
    events_applied: int
    events_refused: int
    records_poisonous: int


class TopicBasedRemoteLogMetadataManager(RemoteLogMetadataManager):
    """Keeps metadata in the topic of an event log. `start` and `stop` it on its loop."""

    def __init__(
        self,
        runtime: Runtime,
        event_log: MetadataEventLog,
        directory: str,
        settings: RemoteTopicSettings | None = None,
        *,
        snapshot_interval_ms: int = SNAPSHOT_INTERVAL_MS,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Take an open event log, which is closed with the manager, and a directory for snapshots.

        `on_failure` receives a bug in a background task; without it `stop` raises it.
        """
        self._event_log = event_log
        self._settings = settings or RemoteTopicSettings()
        self._assignment = MetadataAssignment(runtime, event_log, directory)
        self._snapshots = MetadataSnapshotKeeper(runtime, self._assignment, directory, snapshot_interval_ms)
        self._number_of = lru_cache(_KNOWN_PARTITIONS)(metadata_partition_for)
        self._scope = TaskScope(on_failure)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = -1

    async def start(self) -> None:
        """Begin to read what is assigned."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._event_log.start(self._assignment)
        self._scope.start(self._assignment.run())
        self._scope.start(self._snapshots.run())

    async def stop(self) -> None:
        """Stop reading, then write snapshots. Stopping twice is allowed."""
        await self._scope.close()
        await self._event_log.close()
        for partition in self._assignment.partitions:
            partition.unassign()
        await self._snapshots.write_dirty()

    def subscribe_doubts(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop when earlier reads may be wrong: those of partitions that are not ready then.

        The metadata topic has a new leader that has not confirmed its history yet, or it has another history.
        """
        self._assignment.on_doubt = listener

    # -- changes, on the loop ------------------------------------------------------------------------------------

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a segment whose copy begins. Raises InvalidAddError, NotReadyError, RemoteBackendError."""
        require_segment_add(None, metadata)
        await self._publish(metadata)

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a step in the life of a segment.

        Raises InvalidSegmentTransitionError, NotReadyError, RemoteBackendError.
        """
        await self._publish(update)

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition.

        Raises InvalidPartitionDeleteTransitionError, NotReadyError, RemoteBackendError.
        """
        await self._publish(metadata)

    async def catch_up(self, partition: TopicIdPartition) -> None:
        """Return when this node has read all that was stored of a partition at the call.

        Raises NotReadyError, RemoteBackendError.
        """
        number = self._number_of(partition, len(self._assignment.partitions))
        known = self._assignment.partitions[number]
        read_to, history = known.next_offset, known.histories
        try:
            async with asyncio.timeout(self._settings.consume_wait_ms / 1000):
                ends = await self._event_log.end_offsets([number])
                if number not in ends:
                    raise NotReadyError(f"the end of metadata partition {number} of {partition} is not known")
                if ends[number] < read_to and known.histories == history:
                    # A leader that was elected since lacks events; the next fetch finds where they diverge.
                    raise NotReadyError(f"metadata partition {number} of {partition} lost events that were read before")
                await known.wait_read(ends[number])
        except TimeoutError as error:
            message = f"the events of {partition} were not read within {self._settings.consume_wait_ms} ms"
            raise RemoteBackendError(message) from error
        except RemoteStorageError:
            raise
        except CrabkaError as error:
            raise RemoteBackendError(f"the end of the events of {partition} is not known: {error}") from error

    async def _publish(self, event: MetadataEvent) -> None:
        """Publish an event and wait until this node has read it back; raise why it was refused, if it was.

        After RemoteBackendError the event may be stored or not: a retry finds out.
        """
        number = self._number_of(event.topic_id_partition, len(self._assignment.partitions))
        partition = self._assignment.partitions[number]
        if not partition.is_assigned:
            raise NotReadyError(f"metadata partition {number} of {event.topic_id_partition} is not read here")
        value = encode_event(event)
        with partition.publishing():
            try:
                async with asyncio.timeout(self._settings.consume_wait_ms / 1000):
                    offset = await self._event_log.publish(number, value)
                    await partition.wait_applied(offset, value)
            except TimeoutError as error:
                waited_ms = self._settings.consume_wait_ms
                message = f"an event of {event.topic_id_partition} was not read back within {waited_ms} ms"
                raise RemoteBackendError(message) from error
            except RemoteStorageError:
                raise
            except CrabkaError as error:
                message = f"an event of {event.topic_id_partition} was not published: {error}"
                raise RemoteBackendError(message) from error

    # -- changes, from other threads -----------------------------------------------------------------------------

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Do what `add_segment` does and wait for it; not on the loop."""
        self._wait_for(self.add_segment(metadata))

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Do what `update_segment` does and wait for it; not on the loop."""
        self._wait_for(self.update_segment(update))

    def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Do what `put_partition_delete` does and wait for it; not on the loop."""
        self._wait_for(self.put_partition_delete(metadata))

    def close(self) -> None:
        """Do what `stop` does and wait for it; not on the loop."""
        self._wait_for(self.stop())

    def _wait_for(self, change: Coroutine[Any, Any, None]) -> None:
        if self._loop is None or self._loop.is_closed() or threading.get_ident() == self._loop_thread:
            change.close()
            if threading.get_ident() == self._loop_thread:
                raise InvariantError("the loop must not block on itself: use the coroutine")
            raise NotReadyError("the metadata manager is not running")
        future = asyncio.run_coroutine_threadsafe(change, self._loop)
        try:
            future.result((self._settings.consume_wait_ms + _LOOP_DELAY_MS) / 1000)
        except FutureTimeoutError as error:
            future.cancel()
            raise RemoteBackendError("the loop of the metadata manager does not respond") from error

    # -- reads, from any thread ----------------------------------------------------------------------------------

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment that holds an offset that was written in an epoch. Raises NotReadyError."""
        return self._view(partition).remote_log_segment_metadata(partition, leader_epoch, offset)

    def highest_offset_for_epoch(self, partition: TopicIdPartition, leader_epoch: int) -> int | None:
        """Return the highest offset of an epoch that was ever copied. Raises NotReadyError."""
        return self._view(partition).highest_offset_for_epoch(partition, leader_epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return segments as they are now, by start offset. Raises NotReadyError."""
        return self._view(partition).list_remote_log_segments(partition, leader_epoch)

    def remote_log_size(self, partition: TopicIdPartition, leader_epoch: int) -> int:
        """Return the bytes of the finished segments that hold records of an epoch. Raises NotReadyError."""
        return self._view(partition).remote_log_size(partition, leader_epoch)

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first finished segment of an epoch with aborted transactions, from an offset on.

        Raises NotReadyError.
        """
        return self._view(partition).next_segment_with_txn_index(partition, leader_epoch, offset)

    def partition_delete_metadata(self, partition: TopicIdPartition) -> RemotePartitionDeleteMetadata | None:
        """Return how far the deletion of a partition is; None if it has not begun or is finished.

        Raises NotReadyError.
        """
        return self._view(partition).partition_delete_metadata(partition)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether reads of a partition succeed."""
        partitions = self._assignment.partitions
        return partitions[self._number_of(partition, len(partitions))].readable is not None

    def partitions_of_own(self) -> list[TopicIdPartition]:
        """Return the partitions of which anything is known, in the metadata partitions that this node leads.

        Those that are not ready are left out.
        """
        partitions = self._assignment.partitions
        views = [partitions[number].readable for number in sorted(self._assignment.own) if number < len(partitions)]
        return [partition for view in views if view is not None for partition in view.partitions()]

    def status(self) -> MetadataStatus:
        """Return the present numbers."""
        partitions = self._assignment.partitions
        return MetadataStatus(
            assigned=sum(partition.is_assigned for partition in partitions),
            ready=sum(partition.readable is not None for partition in partitions),
            events_applied=sum(partition.counts.applied for partition in partitions),
            events_refused=sum(partition.counts.refused for partition in partitions),
            records_poisonous=sum(partition.counts.poisonous for partition in partitions),
        )

    def _view(self, partition: TopicIdPartition) -> InmemoryRemoteLogMetadataManager:
        partitions = self._assignment.partitions
        number = self._number_of(partition, len(partitions))
        view = partitions[number].readable
        if view is None:
            raise NotReadyError(f"metadata partition {number} of {partition} is not known to its end here")
        return view

    # -- assignment, from any thread -----------------------------------------------------------------------------

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """Note that this node leads and follows these partitions from now on."""
        self._notify(self._assignment.host, [*leaders, *followers])

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Note that this node has no replica of these partitions any more."""
        self._notify(self._assignment.unhost, list(partitions))

    def set_own_metadata_partitions(self, numbers: Iterable[int]) -> None:
        """Note which metadata partitions this node leads; it always reads them."""
        self._notify(self._assignment.set_own, list(numbers))

    def _notify(self, method: Any, argument: Any) -> None:
        if self._loop is None or threading.get_ident() == self._loop_thread:
            method(argument)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(method, argument)
