"""What a follower needs to begin after the data that only the tier has (Kafka's TierStateMachine).

The segment that ends just below the leader's local log has, beside its batches, all leader epochs up to its end and the
state of the producers there. With these the follower starts empty after it, as if it had fetched the records.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from crabka.broker.tiering.read.healing.segment_rebuild import replay_segment
from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.leader_epochs import EpochLineage, format_epochs
from crabka.log.producers.snapshots import decode_snapshot
from crabka.remote.errors import RemoteBackendError, RemoteStorageError
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType, RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.tiering.read.deadline import Deadline
    from crabka.broker.tiering.read.remote_log import RemoteLog, SegmentLookup
    from crabka.broker.tiering.read.tools import ReadTools
    from crabka.remote.segments import RemoteLogSegmentMetadata
    from crabka.remote.storage_manager import RemoteStorageManager

logger = logging.getLogger(__name__)


class FollowerStart(NamedTuple):
    """Where a follower's log begins, and the history up to there."""

    start_offset: int
    epochs: list[tuple[int, int]]
    producer_snapshot: bytes


async def follower_start(
    tools: ReadTools, remote: RemoteLog, last: tuple[int, int], deadline: Deadline
) -> FollowerStart:
    """Return the start after the segment that holds `last`, a leader epoch and an offset.

    Raises RemoteStorageError (the segment may not be known here yet), RemoteWaitOverError.
    """
    leader_epoch, offset = last
    segment = tools.lookup.remote_log_segment_metadata(remote.topic_id_partition, leader_epoch, offset)
    if segment is None:
        raise RemoteBackendError(
            f"no segment of {remote.topic_id_partition} is known to hold offset {offset} of epoch {leader_epoch}"
        )
    return await deadline.wait(tools.pool.submit(_read_state, tools.storage, tools.lookup, segment))


def _read_state(
    storage: RemoteStorageManager, lookup: SegmentLookup, segment: RemoteLogSegmentMetadata
) -> FollowerStart:
    """Runs in a thread: there may be many segments, and damaged objects are built from batches."""
    chain = _chain(lookup, segment)
    before = chain[1] if len(chain) > 1 else None
    return FollowerStart(
        segment.end_offset + 1, _read_epochs(storage, segment, chain), _read_producers(storage, segment, before)
    )


def _chain(lookup: SegmentLookup, segment: RemoteLogSegmentMetadata) -> list[RemoteLogSegmentMetadata]:
    """Return the segment and those before it, each of which ends where the one after it begins, the last first.

    It ends where two segments of different histories could be the one before.
    """
    by_end: dict[int, list[RemoteLogSegmentMetadata]] = {}
    for each in lookup.list_remote_log_segments(segment.topic_id_partition):
        if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            by_end.setdefault(each.end_offset, []).append(each)
    chain = [segment]
    while True:
        first = chain[-1]
        before = [
            each
            for each in by_end.get(first.start_offset - 1, ())
            if each.start_offset < first.start_offset and each.leader_epochs[-1][0] <= first.leader_epochs[0][0]
        ]
        if len({each.leader_epochs[-1][0] for each in before}) != 1:
            return chain
        chain.append(before[0])


def _read_epochs(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, chain: Sequence[RemoteLogSegmentMetadata]
) -> list[tuple[int, int]]:
    """Return the leader epochs up to the end of a segment, from the metadata if the object has others."""
    data = storage.fetch_index(segment, IndexType.LEADER_EPOCH)
    try:
        epochs = decode_epochs(data, str(segment.segment_id))
        wrong = _contradiction(epochs, chain)
    except CorruptDataError as error:
        epochs, wrong = [], str(error)
    starts: dict[int, int] = {}
    for each in reversed(chain):
        for epoch, start in each.leader_epochs:
            starts.setdefault(epoch, start)
    if wrong:
        _report(segment, IndexType.LEADER_EPOCH, wrong)
        return sorted(starts.items())
    # The first epoch begins where the log began at the time of the copy, or a digit of that is wrong.
    first, start = epochs[0]
    return [(first, min(start, starts.get(first, start))), *epochs[1:]]


def _contradiction(epochs: Sequence[tuple[int, int]], chain: Sequence[RemoteLogSegmentMetadata]) -> str:
    """Return how leader epochs differ from what the metadata says of segments, empty if they do not."""
    if not epochs:
        return "it has no epochs"
    lineage = EpochLineage(epochs)
    for each in chain:
        cut = lineage.between(each.start_offset, each.end_offset)
        # What was below the log start at the time of the copy is not in it.
        if cut != tuple(each.leader_epochs) and (each is chain[0] or each.start_offset >= epochs[0][1]):
            return f"it has {format_epochs(cut)}, and the metadata {format_epochs(each.leader_epochs)}"
    return ""


def _read_producers(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, before: RemoteLogSegmentMetadata | None
) -> bytes:
    """Return the producer snapshot at the end of a segment, from the batches if the object is damaged."""
    snapshot = storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
    try:
        decode_snapshot(snapshot, str(segment.segment_id))
    except CorruptDataError as error:
        _report(segment, IndexType.PRODUCER_SNAPSHOT, str(error))
        try:
            return replay_segment(storage, segment, before).producer_snapshot
        except RemoteStorageError as failure:
            raise RemoteBackendError(f"the state of producers is damaged ({error}), and {failure}") from failure
    return snapshot


def _report(segment: RemoteLogSegmentMetadata, kind: IndexType, reason: str) -> None:
    logger.warning(
        "%s-%d: %s in the remote tier is damaged, and a replica begins without it: %s. `crabka tier fsck` checks the "
        "whole tier.",
        segment.topic_id_partition.topic,
        segment.topic_id_partition.partition,
        object_path(segment, kind),
        reason,
    )
