"""Where a leader begins whose log may lack its end: after what the tier holds of it.

A log that lost its only segment, or the whole disk, opens empty at its log start. Led like that it would give out
offsets again that the tier already has (Kafka does so), and everything in the tier would belong to another history. So
such a log is not led before the tier's metadata is known to its end. If the tier continues where the log ends, the log
begins again after the last segment, with the leader epochs and producers that were copied with it, as a follower does
that begins at the leader's local log start.

Only a log that may lack durable records is held up: one that was opened without any record, or with an end below what
its checkpoints know of. A stop in between changes nothing, since every start finds that again. A log that
diverges from the tier, with another epoch at the same offset, comes from an unclean election, and is led as it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.broker.tiering.copy.plan import copied_offset, remote_log_start
from crabka.broker.tiering.metadata.tier_metadata import PartitionLookup
from crabka.formats.leader_epochs import EpochLineage
from crabka.remote.errors import NotReadyError
from crabka.remote.segments import RemoteLogSegmentState, newest_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from crabka.broker.partition.partition import Partition
    from crabka.broker.tiering.bootstrap.follower_bootstrap import FollowerStart
    from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
    from crabka.broker.tiering.metadata.tier_metadata import TierMetadata
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition

    Epochs = Sequence[tuple[int, int]]

logger = logging.getLogger(__name__)


def last_finished(segments: Iterable[RemoteLogSegmentMetadata]) -> RemoteLogSegmentMetadata | None:
    """Return the finished segment with which the tier ends: the last one of the newest leader epoch."""
    return newest_segment(each for each in segments if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED)


def continues(epochs: Epochs, end_offset: int, local_epochs: Epochs, log_end_offset: int) -> bool:
    """Return whether a history that ends at an offset has a log as its beginning; an empty log begins any."""
    theirs = EpochLineage(epochs, end_offset)
    stops = [*(start for _, start in local_epochs[1:]), log_end_offset]
    for (epoch, start), stop in zip(local_epochs, stops, strict=bool(local_epochs)):
        # Of what lay below the log start at the time of the copy it is only known that its epochs were not later.
        shared = range(max(start, theirs.start_offset), stop)
        if shared and {theirs.epoch_at(shared[0]), theirs.epoch_at(shared[-1])} != {epoch}:
            return False
        if epoch > theirs.epochs[-1] or (not shared and epoch > theirs.epochs[0]):
            return False
    return log_end_offset <= end_offset


def _remote_start(start: FollowerStart, listed: Sequence[RemoteLogSegmentMetadata]) -> int:
    """Return where the history that leads up to the end of the tier begins there."""
    finished = [each for each in listed if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
    return remote_log_start(EpochLineage(start.epochs, start.start_offset), finished, local_start=start.start_offset)


class LeaderStart:
    """Brings logs that may lack their end to the end of the tier. Only for the loop."""

    def __init__(self, metadata: TierMetadata, tier: FollowerTier) -> None:
        self._metadata = metadata
        self._tier = tier

    async def settle(self, name: TopicIdPartition, partition: Partition, is_wanted: Callable[[], bool]) -> None:
        """Return when a log may be led: it reaches to the end of the tier, or has another history than the tier.

        Raises NotReadyError, RemoteStorageError, RemoteWaitOverError while that cannot be known; StorageError.
        """
        metadata = self._metadata
        metadata.require_ready(name)
        # What other leaders copied counts, too.
        await metadata.catch_up(name)
        metadata.require_ready(name)
        last = last_finished(metadata.list_remote_log_segments(name))
        if metadata.active_notices(name):
            raise NotReadyError(f"what the tier has of {name} is being removed")
        if last is None or last.end_offset < partition.log.log_end_offset:
            return
        start = await self._tier.start_after(partition, last.leader_epochs[-1][0], last.end_offset)
        async with partition.queue.turn():
            if not is_wanted():
                return
            listed = list(metadata.list_remote_log_segments(name))
            if last_finished(listed) != last:
                # A former leader finished a copy, or something was removed.
                raise NotReadyError(f"the end of {name} in the tier has moved while its history was read")
            remote_start = _remote_start(start, listed)
            if self.may_replace(name, partition.log, start, remote_start):
                await self._begin_after(partition, start, remote_start)

    def may_replace(
        self, name: TopicIdPartition, source: PartitionLog, start: FollowerStart, remote_start: int
    ) -> bool:
        """Return whether the tier has all that the log has, and more.

        What lies before the first segment of the tier, `remote_start`, is not missed: leaders copy in order, so it was
        deleted since, and only this replica does not know that.
        """
        end, first = source.log_end_offset, source.local_log_start_offset
        local = source.leader_epochs.lineage.before(end).entries
        if not continues(start.epochs, start.start_offset, local, end):
            logger.warning(
                "%s ends at %d and has another history than the tier, which ends at %d: it is led as it is",
                name.topic_partition,
                end,
                start.start_offset,
            )
            return False
        lineage = EpochLineage(start.epochs, start.start_offset)
        lookup = PartitionLookup(self._metadata, name)
        if first < end and copied_offset(lineage, lookup, max(first, remote_start)) < start.start_offset - 1:
            logger.error(
                "%s ends at %d, before the tier does at %d, but the tier lacks some of it: it is led as it is",
                name.topic_partition,
                end,
                start.start_offset,
            )
            return False
        return True

    async def _begin_after(self, partition: Partition, start: FollowerStart, remote_start: int) -> None:
        source = partition.log
        log_start = min(max(remote_start, source.log_start_offset), start.start_offset)
        logger.warning(
            "%s-%d ended at %d on this disk, though the tier holds it up to %d: it continues at %d, and begins at %d",
            partition.topic,
            partition.index,
            source.log_end_offset,
            start.start_offset - 1,
            start.start_offset,
            log_start,
        )
        await self._tier.rebuild(partition, start, log_start)
