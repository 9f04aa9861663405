"""Metadata of a tier that is in memory, as the broker uses it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from crabka.broker.tiering.metadata.tier_metadata import TierMetadata, TierMetadataManager
from crabka.ports import Threads
from crabka.remote.errors import NotReadyError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)


class SharedMetadata:
    """The metadata that brokers share, as the manager of one of them: its changes take a turn of that broker's pool."""

    def __init__(
        self,
        shared: InmemoryRemoteLogMetadataManager,
        threads: Threads,
        own: Callable[[], Collection[TopicIdPartition]] = tuple,
    ) -> None:
        # None while nothing is known for certain.
        self.shared: InmemoryRemoteLogMetadataManager | None = shared
        self._threads = threads
        self.partitions_of_own = own
        self.doubt: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._known(), name)

    @property
    def as_manager(self) -> TierMetadataManager:
        """The same, for the type checker: reads are found at run time."""
        return cast("TierMetadataManager", self)

    def is_ready(self, _partition: TopicIdPartition) -> bool:
        return self.shared is not None

    def subscribe_doubts(self, listener: Callable[[], None]) -> None:
        """Remember the listener, which the test calls."""
        self.doubt = listener

    def on_partition_leadership_changes(self, *_replicas: Collection[TopicIdPartition]) -> None:
        pass

    def on_stop_partitions(self, _partitions: Collection[TopicIdPartition]) -> None:
        pass

    async def catch_up(self, _partition: TopicIdPartition) -> None:
        pass

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._threads.submit(self._known().add_remote_log_segment_metadata, metadata)

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        await self._threads.submit(self._known().update_remote_log_segment_metadata, update)

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        await self._threads.submit(self._known().put_remote_partition_delete_metadata, metadata)

    def _known(self) -> InmemoryRemoteLogMetadataManager:
        if self.shared is None:
            raise NotReadyError("the metadata is not known")
        return self.shared


def tier_metadata(shared: InmemoryRemoteLogMetadataManager, threads: Threads) -> TierMetadata:
    """Return ready metadata in memory."""
    metadata = TierMetadata()
    metadata.install(SharedMetadata(shared, threads).as_manager)
    return metadata
