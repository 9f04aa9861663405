"""`crabka tier forget`: deletes segments that are not part of a partition's log.

A leader keeps them, because they may be the last copy of records that its disk lost. The command selects them by the
same rule, and starts their deletion with an event in the metadata topic; the leader carries it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.clients.fetcher.offsets import EARLIEST, LATEST, list_offsets
from crabka.clients.producer.producer import Producer
from crabka.errors import ConfigError
from crabka.remote.segments import RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.serde import encode_event
from crabka.remote_topic.settings import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.clients.cluster.cluster import Cluster
    from crabka.clients.fetcher.offsets import OffsetAndTimestamp
    from crabka.ids import TopicPartition
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote_topic.tier_view import TierView

# The event comes from no broker.
OPERATOR: Final = -1


async def find_forgettable(
    cluster: Cluster, view: TierView, place: TopicPartition, *, all_segments: bool
) -> list[RemoteLogSegmentMetadata]:
    """Return the finished segments that are not part of the leader's log; with `all_segments` all of the partition.

    Raises ConfigError for a partition that does not exist, OperationError or ClientNetworkError without its leader.
    """
    identity = view.live_partitions().get(place)
    if identity is None:
        raise ConfigError(f"the cluster has no partition {place}")
    finished = view.finished().get(identity, [])
    if all_segments or not finished:
        return finished
    start = (await list_offsets(cluster, {place: EARLIEST}))[place]
    end = (await list_offsets(cluster, {place: LATEST}))[place]
    return [segment for segment in finished if is_foreign(segment, start, end.offset)]


def is_foreign(segment: RemoteLogSegmentMetadata, start: OffsetAndTimestamp, end_offset: int) -> bool:
    """Return whether a segment reaches beyond the end of a log, or is of epochs before that of its start."""
    return segment.end_offset >= end_offset or (
        segment.end_offset >= start.offset and segment.leader_epochs[-1][0] < start.leader_epoch
    )


async def forget(cluster: Cluster, view: TierView, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
    """Write events that start the deletion of segments. Raises OperationError, ClientNetworkError."""
    count = len(view.topics[METADATA_TOPIC].partitions)
    now_ms = cluster.runtime.clock.now_ms()
    async with Producer(cluster) as producer:
        deliveries = []
        for segment in segments:
            update = RemoteLogSegmentMetadataUpdate(
                segment_id=segment.segment_id,
                event_timestamp_ms=now_ms,
                state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
                broker_id=OPERATOR,
                custom_metadata=segment.custom_metadata,
            )
            partition = metadata_partition_for(segment.topic_id_partition, count)
            deliveries.append(await producer.send(METADATA_TOPIC, encode_event(update), partition=partition))
        await producer.flush()
        for delivery in deliveries:
            await delivery
