"""The notice that all segments of a partition are being removed, as its topic is not tiered any more (KIP-950). PURE.

A topic may be tiered again while its earlier segments are still being removed, by a broker that does not know it yet or
has just been replaced. Then no broker may use any of them. So the removal is announced first, in the order of the
metadata itself: by a segment without data, in an epoch that no log ever has. Other readers of the metadata see an
abandoned upload.

| state of the notice                       | means                                                          |
|-------------------------------------------|----------------------------------------------------------------|
| COPY_SEGMENT_STARTED                      | announced: nothing counts, but nothing is removed yet          |
| COPY_SEGMENT_FINISHED                     | committed: the topic was not tiered after the announcement     |
| DELETE_SEGMENT_STARTED, was not committed | withdrawn: the topic is tiered, all segments count again       |
| DELETE_SEGMENT_STARTED, was committed     | still going: it was too late to withdraw it                    |
| DELETE_SEGMENT_FINISHED                   | over: what is there now was added later                        |

A withdrawn notice cannot be committed any more, and a committed one stays committed: which of the two came first is the
same for all brokers. While a notice is active no segment can be added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.remote.segments import (
    CustomMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)

if TYPE_CHECKING:
    import uuid

    from crabka.remote.segments import TopicIdPartition

# The last one that Kafka's format has room for.
NOTICE_EPOCH: Final = (1 << 31) - 1
COMMITTED: Final = CustomMetadata(b"crabka: all segments go")

_NOTICE_EPOCHS: Final = ((NOTICE_EPOCH, 0),)
_STANDING: Final = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


def new_removal_notice(
    partition: TopicIdPartition, notice_id: uuid.UUID, *, broker_id: int, now_ms: int
) -> RemoteLogSegmentMetadata:
    """Return the announcement that all segments of a partition are being removed."""
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, notice_id),
        start_offset=0,
        end_offset=0,
        max_timestamp_ms=-1,
        broker_id=broker_id,
        event_timestamp_ms=now_ms,
        segment_size_bytes=0,
        leader_epochs=_NOTICE_EPOCHS,
        txn_index_empty=True,
    )


def is_removal_notice(segment: RemoteLogSegmentMetadata) -> bool:
    """Return whether something in the place of a segment is a notice, whatever its state."""
    return segment.segment_size_bytes == 0 and segment.leader_epochs == _NOTICE_EPOCHS


def is_committed_notice(segment: RemoteLogSegmentMetadata) -> bool:
    """Return whether a notice is committed: segments are being removed."""
    return is_removal_notice(segment) and segment.custom_metadata == COMMITTED


def is_active_notice(segment: RemoteLogSegmentMetadata) -> bool:
    """Return whether a notice makes the segments of its partition unusable."""
    return is_removal_notice(segment) and (segment.state in _STANDING or segment.custom_metadata == COMMITTED)
