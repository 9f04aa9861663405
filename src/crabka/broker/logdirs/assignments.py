"""Has the controller commit in which log dir a replica is (AssignReplicasToDirs, KIP-858).

A swap may not begin before the metadata have it: they decide between two copies after a crash. It is reported again
and again until this node has applied the metadata that say it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.controller_link.directory_reports import DirectoryReports
    from crabka.broker.partition.partition import Partition
    from crabka.ids import DirectoryId
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.image import MetadataImage

# After a response the metadata are here within moments; if not, it is reported again.
RETRY_MS: Final = 500


class DirectoryAssignments:
    """Reports an assignment, and waits for the metadata."""

    def __init__(
        self,
        reports: DirectoryReports,
        logs: LogManager,
        *,
        node_id: int,
        image: Callable[[], MetadataImage],
        subscribe: Callable[[Callable[[object, MetadataImage], None]], Callable[[], None]],
    ) -> None:
        self._reports = reports
        self._logs = logs
        self._node_id = node_id
        self._image = image
        self._subscribe = subscribe

    async def assign(self, partition: Partition, log_dir: str) -> None:
        """Return when the metadata place the replica in a log dir; at once if that has no id."""
        directory = self._logs.directory_id(log_dir)
        if directory is None:
            return
        changed = asyncio.Event()
        unsubscribe = self._subscribe(lambda _delta, _image: changed.set())
        try:
            while not self._is_there(partition, directory):
                changed.clear()
                await self._reports.send({directory: {partition.topic_id: [partition.index]}})
                await self._wait(changed, partition, directory)
        finally:
            unsubscribe()

    async def _wait(self, changed: asyncio.Event, partition: Partition, directory: DirectoryId) -> None:
        try:
            async with asyncio.timeout(RETRY_MS / 1000):
                while not self._is_there(partition, directory):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            return

    def _is_there(self, partition: Partition, directory: DirectoryId) -> bool:
        topic = self._image().topics.by_id.get(partition.topic_id)
        known = None if topic is None else topic.partitions.get(partition.index)
        return known is not None and self._node_id in known.replicas and known.directory_of(self._node_id) == directory
