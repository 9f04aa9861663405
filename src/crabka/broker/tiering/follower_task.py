"""What a follower does: it learns how much is in the tier, so that it may delete that locally (RLMFollowerTask)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.tiering.progress import note_copied_offset, require_ready

if TYPE_CHECKING:
    from crabka.broker.tiering.tools import TierTools
    from crabka.log.partition_log import PartitionLog
    from crabka.remote.segments import TopicIdPartition


class FollowerTask:
    """The upkeep of one followed partition."""

    def __init__(self, tools: TierTools, partition: TopicIdPartition, source: PartitionLog) -> None:
        self._tools = tools
        self._partition = partition
        self._log = source

    async def run_once(self) -> None:
        """Tell the log up to where the tier holds all of it. Raises NotReadyError."""
        metadata = self._tools.metadata
        require_ready(metadata, self._partition)
        note_copied_offset(metadata, self._partition, self._log)
