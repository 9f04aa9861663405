"""Finishes deletions of partitions that have no leader any more, because their topic is deleted.

The leader of a partition removes its data when the topic is deleted. If that broker crashes, the leader of the
partition's metadata partition, its owner, finishes the deletion. The owner first catches up with the controller: a
broker that lags must not delete a topic that was just created.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.tiering.expire.deletion import PartitionRemover
    from crabka.broker.tiering.tools import TierTools
    from crabka.remote.segments import TopicIdPartition

logger = logging.getLogger(__name__)


class ClusterFacts(Protocol):
    """What must be known of the cluster to find leftovers."""

    def is_topic_deleted(self, partition: TopicIdPartition) -> bool:
        """Return whether there is no topic of that id."""
        ...

    async def catch_up(self) -> None:
        """Return when this broker has applied all that the controller had committed. Raises OperationError."""
        ...


class OrphanSweep:
    """Removes partitions that two runs in a row found to be left over."""

    def __init__(
        self,
        tools: TierTools,
        remover: PartitionRemover,
        cluster: ClusterFacts,
        *,
        is_busy: Callable[[TopicIdPartition], bool],
    ) -> None:
        """`is_busy` returns whether this broker tiers a partition, or removes it already."""
        self._tools = tools
        self._remover = remover
        self._cluster = cluster
        self._is_busy = is_busy
        # Seen by the last run: their last leader gets the time between two runs.
        self._seen: frozenset[TopicIdPartition] = frozenset()

    async def run_once(self) -> None:
        """Remove what was left over already in the last run. Raises RemoteStorageError, OperationError."""
        found = self._left_over()
        due = found & self._seen
        self._seen = found
        if not due:
            return
        await self._cluster.catch_up()
        for partition in due & self._left_over():
            logger.info("What %s left in the tier is removed", partition)
            await self._remover.delete(partition)

    def _left_over(self) -> frozenset[TopicIdPartition]:
        return frozenset(
            partition
            for partition in self._tools.metadata.partitions_of_own()
            if not self._is_busy(partition) and self._cluster.is_topic_deleted(partition)
        )
