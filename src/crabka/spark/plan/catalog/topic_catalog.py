"""The catalog from the metadata topic: events are read once and kept on disk, later plans read the newer ones.

Works with the topic of Apache Kafka as well. Like brokers, it ignores events that contradict earlier ones.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from crabka.remote.errors import NotReadyError, RemoteStorageError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager, PartitionDump, RlmmCacheDump
from crabka.remote.removal_notice import is_removal_notice
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.reading import MetadataPosition, MetadataTopicReader
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.remote_topic.snapshot import Snapshot
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.plan.catalog.cache_files import cache_path, load_cache, store_cache
from crabka.spark.plan.catalog.segments import TierCatalog

if TYPE_CHECKING:
    from crabka.clients.cluster.cluster import Cluster
    from crabka.clients.cluster.metadata import TopicMetadata
    from crabka.remote_topic.event_reader import MetadataEvent


def load_topic_catalog(session: BrokerSession, wanted: Collection[TopicIdPartition]) -> TierCatalog:
    """Return the segments of partitions. A cluster that never tiered anything has none."""
    metadata_topic = session.topics().get(METADATA_TOPIC)
    if metadata_topic is None or not wanted:
        return TierCatalog()
    known = _KnownEvents(metadata_topic, wanted)
    session.run(known.read_on)
    if known.outdated:
        # The log lost what the files hold; it may have other events in their place.
        known = _KnownEvents(metadata_topic, wanted, without=known.outdated)
        session.run(known.read_on)
    if known.outdated:
        raise NotReadyError(f"the history of {METADATA_TOPIC} changes while it is read")
    known.store()
    return TierCatalog(known.finished(wanted))


class _KnownEvents:
    """The state after the events of some metadata partitions."""

    def __init__(
        self, topic: TopicMetadata, wanted: Collection[TopicIdPartition], without: Collection[int] = ()
    ) -> None:
        """Begin with what files have, but for the metadata partitions `without`, which are read from their start."""
        self.outdated: Collection[int] = ()
        self._topic = topic
        self._wanted = wanted
        self._count = len(topic.partitions)
        self._manager = InmemoryRemoteLogMetadataManager()
        self._positions: dict[int, MetadataPosition] = {}
        for partition in {metadata_partition_for(each, self._count) for each in wanted}.difference(without):
            snapshot = load_cache(self._path(partition))
            if snapshot is not None and self._is_ours(snapshot, partition):
                self._manager.load(snapshot.dump)
                self._positions[partition] = MetadataPosition(snapshot.next_offset, snapshot.leader_epoch)
        self._read_positions = dict(self._positions)

    async def read_on(self, cluster: Cluster) -> None:
        """Read from where the files end to the present end of the topic."""
        reader = MetadataTopicReader(cluster, self._positions)
        await reader.read_on(self._take, of=self._wanted)
        self._read_positions = dict(reader.positions)
        self.outdated = reader.outdated

    def store(self) -> None:
        """Write down what changed."""
        changed = {p for p, position in self._read_positions.items() if self._positions.get(p) != position}
        dumps: dict[int, list[PartitionDump]] = {partition: [] for partition in changed}
        for dump in self._manager.dump().partitions if changed else ():
            partition = metadata_partition_for(dump.topic_id_partition, self._count)
            if partition in dumps:
                dumps[partition].append(dump)
        for partition, partition_dumps in dumps.items():
            snapshot = Snapshot(
                topic_id=self._topic.topic_id,
                partition_count=self._count,
                partition=partition,
                next_offset=self._read_positions[partition].offset,
                leader_epoch=self._read_positions[partition].leader_epoch,
                dump=RlmmCacheDump(tuple(partition_dumps)),
            )
            store_cache(self._path(partition), snapshot)

    def finished(self, wanted: Collection[TopicIdPartition]) -> dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]:
        """Return the segments that can be read."""
        state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        found = {
            partition: [
                each
                for each in self._manager.list_remote_log_segments(partition)
                if each.state is state and not is_removal_notice(each)
            ]
            for partition in wanted
        }
        return {partition: segments for partition, segments in found.items() if segments}

    def _take(self, event: MetadataEvent) -> None:
        with suppress(RemoteStorageError):
            match event:
                case RemoteLogSegmentMetadata():
                    self._manager.add_remote_log_segment_metadata(event)
                case RemoteLogSegmentMetadataUpdate():
                    self._manager.update_remote_log_segment_metadata(event)
                case RemotePartitionDeleteMetadata():
                    self._manager.put_remote_partition_delete_metadata(event)
                case _:
                    assert_never(event)

    def _is_ours(self, snapshot: Snapshot, partition: int) -> bool:
        found = (snapshot.topic_id, snapshot.partition_count, snapshot.partition)
        return found == (self._topic.topic_id, self._count, partition)

    def _path(self, partition: int) -> Path:
        return cache_path("topic", self._topic.topic_id, self._count, partition)
