"""What the tasks of a partition wait for: metadata that is known to its end, and a tier that is not being emptied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.broker.tiering.progress import require_ready
from crabka.broker.tiering.purge import active_notices
from crabka.remote.errors import NotReadyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container

    from crabka.broker.tiering.copier import CopyTask
    from crabka.broker.tiering.purge import TierPurge
    from crabka.broker.tiering.tools import TierTools
    from crabka.log.partition_log import PartitionLog
    from crabka.remote.segments import TopicIdPartition

    RunOnce = Callable[[], Awaitable[None]]


class FollowerGate:
    """Knows whether this broker has read what its predecessors wrote of a partition, since its role began."""

    def __init__(self, tools: TierTools, partition: TopicIdPartition) -> None:
        self._tools = tools
        self._partition = partition
        # How often epochs began, and up to which of them all that was written is read.
        self._began = 1
        self._read = 0

    def renew(self) -> None:
        """Learn that another epoch began, in which others may have written."""
        self._began += 1

    async def run(self, run_once: RunOnce) -> None:
        """Run something once all is read. Raises NotReadyError before that, and what it raises."""
        await self._get_current()
        await run_once()

    async def _get_current(self) -> None:
        metadata = self._tools.metadata
        require_ready(metadata, self._partition)
        began = self._began
        if began != self._read:
            await metadata.catch_up(self._partition)
            self._read = began


class LeaderGate(FollowerGate):
    """Besides, lets nothing run beside the removal of all that the tier has."""

    def __init__(
        self,
        tools: TierTools,
        purge: TierPurge,
        copying: CopyTask,
        *,
        partition: TopicIdPartition,
        source: PartitionLog,
        removing: Container[TopicIdPartition],
    ) -> None:
        """`removing` are the partitions that this broker empties because they were not tiered when it began."""
        super().__init__(tools, partition)
        self._purge = purge
        self._copying = copying
        self._log = source
        self._removing = removing

    def renew(self) -> None:
        """Learn that another epoch began: nothing that was seen in the tier before is taken for granted."""
        super().renew()
        self._copying.start_over()

    async def copy(self) -> None:
        """Copy; before that, end what others began to remove, or keep them from it."""
        await self._get_current()
        self._require_alone()
        if active_notices(self._tools.metadata, self._partition):
            self._log.tiering.note_remote_offset(-1)
            self._copying.start_over()
            await self._purge.settle(self._partition, self._log)
        await self._copying.run_once()

    async def run(self, run_once: RunOnce) -> None:
        """Run something while nothing is removed and all is read. Raises NotReadyError otherwise."""
        await self._get_current()
        self._require_alone()
        if active_notices(self._tools.metadata, self._partition):
            raise NotReadyError(f"what the tier has of {self._partition} is being removed")
        await run_once()

    def _require_alone(self) -> None:
        if self._partition in self._removing:
            self._log.tiering.note_remote_offset(-1)
            raise NotReadyError(f"what the tier has of {self._partition} is being removed")
