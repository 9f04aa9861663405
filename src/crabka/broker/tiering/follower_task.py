"""What a follower does: it learns how much is in the tier, so that it may delete that locally (RLMFollowerTask)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.tiering.copy_plan import copied_offset
from crabka.broker.tiering.lineage import EpochLineage
from crabka.broker.tiering.metadata_port import PartitionLookup
from crabka.remote.errors import NotReadyError

if TYPE_CHECKING:
    from crabka.broker.tiering.tiered_log import TieredLog
    from crabka.broker.tiering.tools import TierTools
    from crabka.remote.segments import TopicIdPartition


class FollowerTask:
    """The upkeep of one followed partition."""

    def __init__(self, tools: TierTools, partition: TopicIdPartition, source: TieredLog) -> None:
        self._tools = tools
        self._partition = partition
        self._log = source

    async def run_once(self) -> None:
        """Tell the log up to where the tier holds all of it. Raises NotReadyError."""
        source, metadata = self._log, self._tools.metadata
        if not metadata.is_ready(self._partition):
            raise NotReadyError(f"the remote metadata of {self._partition} is not known yet")
        lineage = EpochLineage(source.leader_epochs.entries, source.log_end_offset)
        lookup = PartitionLookup(metadata, self._partition)
        source.note_remote_offset(copied_offset(lineage, lookup, source.local_log_start_offset))
