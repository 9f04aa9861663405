"""Writes snapshots of the metadata partitions that have changed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from crabka.remote_topic.snapshot import Snapshot, write_snapshot

if TYPE_CHECKING:
    from crabka.ports import Runtime
    from crabka.remote_topic.assignment import MetadataAssignment
    from crabka.remote_topic.metadata_partition import MetadataPartition

logger = logging.getLogger(__name__)


class MetadataSnapshotKeeper:
    """Keeps the snapshot files of a node. One call of `write_dirty` at a time."""

    def __init__(self, runtime: Runtime, assignment: MetadataAssignment, directory: str, interval_ms: int) -> None:
        self._runtime = runtime
        self._assignment = assignment
        self._directory = directory
        self._interval_ms = interval_ms
        self._writing: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Write what has changed, at every interval."""
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            await self.write_dirty()

    async def write_dirty(self) -> None:
        """Write the partitions whose state is newer than their file."""
        if self._writing is not None:
            # Its task was cancelled, the thread was not.
            await asyncio.wait([self._writing])
        partitions = self._assignment.partitions
        for partition in partitions:
            # Metadata of a topic that was replaced since must not be written under the new one.
            if partition.is_dirty and partitions is self._assignment.partitions:
                await self._write(partition)

    async def _write(self, partition: MetadataPartition) -> None:
        capture = partition.capture()
        snapshot = Snapshot(
            topic_id=self._assignment.topic_id,
            partition_count=len(self._assignment.partitions),
            partition=partition.number,
            next_offset=capture.next_offset,
            leader_epoch=capture.leader_epoch,
            dump=capture.dump,
        )
        try:
            self._writing = self._runtime.threads.submit(write_snapshot, self._runtime.fs, self._directory, snapshot)
            await asyncio.shield(self._writing)
        except OSError as error:
            logger.warning("the snapshot of metadata partition %d was not written: %s", partition.number, error)
        else:
            partition.note_snapshot(capture)
