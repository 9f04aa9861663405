"""What a follower needs to begin behind the data that only the tier has (Kafka's TierStateMachine).

The segment that ends just below the leader's local log has, beside its batches, all leader epochs up to its end and the
state of the producers there. With these the follower starts empty behind it, as if it had had the records itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError
from crabka.log.checkpoints import decode_epochs
from crabka.log.producer_snapshots import decode_snapshot
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import IndexType

if TYPE_CHECKING:
    from crabka.broker.tiering.deadline import Deadline
    from crabka.broker.tiering.read_tools import ReadTools
    from crabka.broker.tiering.remote_log import RemoteLog
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager


class FollowerStart(NamedTuple):
    """Where a follower's log begins, and the history up to there."""

    start_offset: int
    epochs: list[tuple[int, int]]
    producer_snapshot: bytes


async def follower_start(
    tools: ReadTools, remote: RemoteLog, last: tuple[int, int], deadline: Deadline
) -> FollowerStart:
    """Return the start behind the segment that holds `last`, a leader epoch and an offset.

    Raises RemoteStorageError (the segment may not be known here yet), RemoteWaitOverError.
    """
    leader_epoch, offset = last
    segment = tools.lookup.remote_log_segment_metadata(remote.topic_id_partition, leader_epoch, offset)
    if segment is None:
        raise RemoteBackendError(
            f"no segment of {remote.topic_id_partition} is known to hold offset {offset} of epoch {leader_epoch}"
        )
    return await deadline.wait(tools.pool.submit(_read_state, tools.storage, segment))


def _read_state(storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata) -> FollowerStart:
    """Runs in a thread."""
    where = str(segment.segment_id)
    epochs = storage.fetch_index(segment, IndexType.LEADER_EPOCH)
    snapshot = storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
    try:
        decode_snapshot(snapshot, where)
        return FollowerStart(segment.end_offset + 1, decode_epochs(where, epochs), snapshot)
    except CorruptDataError as error:
        raise RemoteBackendError(f"the state of producers or epochs is damaged: {error}") from error
