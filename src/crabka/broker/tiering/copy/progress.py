"""How much of a log the tier holds: found out from the metadata, and told to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.tiering.copy.plan import NOTHING_COPIED, copied_offset
from crabka.broker.tiering.metadata.tier_metadata import PartitionLookup
from crabka.formats.leader_epochs import EpochLineage

if TYPE_CHECKING:
    from collections.abc import Container

    from crabka.broker.tiering.metadata.tier_metadata import TierMetadata
    from crabka.broker.tiering.tiered_log import TieredLog
    from crabka.remote.segments import RemoteLogSegmentId, TopicIdPartition


def lineage_of(source: TieredLog) -> EpochLineage:
    """Return the history of a log."""
    return EpochLineage(source.leader_epochs.lineage.entries, source.log_end_offset)


def note_copied_offset(
    metadata: TierMetadata,
    partition: TopicIdPartition,
    source: TieredLog,
    *,
    verified_offset: int = -1,
    without: Container[RemoteLogSegmentId] = (),
) -> int:
    """Find out up to where the tier holds all that is local, note it in the log, and return it. Raises NotReadyError.

    The caller knows that it does up to `verified_offset`. Segments that this broker removes, `without`, do not count.
    While everything in the tier is going, nothing counts.
    """
    if metadata.active_notices(partition):
        source.note_remote_offset(NOTHING_COPIED)
        return NOTHING_COPIED
    from_offset = max(source.local_log_start_offset, verified_offset + 1)
    copied = copied_offset(lineage_of(source), PartitionLookup(metadata, partition, without), from_offset)
    source.note_remote_offset(copied)
    return copied
