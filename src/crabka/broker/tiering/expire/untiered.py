"""Led partitions that are not tiered any more, and whose data has to leave the tier (KIP-950).

All that the tier has of them is removed at once, and again in each new epoch. A former leader may still have a copy in
progress then, and store its first event after the tier was seen to be empty. So the leader keeps checking, and removes
what stays there for the grace period of uploads (`leftovers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from crabka.broker.partition.partition import Partition
    from crabka.broker.tiering.tools import TierTools
    from crabka.remote.segments import TopicIdPartition


@dataclass(slots=True)
class _UntieredPartition:
    partition: Partition
    leader_epoch: int
    # Since when the tier holds something of it while no removal is running; None if it was empty.
    found_ms: int | None = None


class UntieredPartitions:
    """These partitions, with the epoch in which their remote data was last removed. Only for the loop."""

    def __init__(self, tools: TierTools) -> None:
        self._tools = tools
        self._led: dict[TopicIdPartition, _UntieredPartition] = {}

    def __contains__(self, name: object) -> bool:
        """Return whether the data of a partition has to leave the tier."""
        return name in self._led

    def begin(self, name: TopicIdPartition, partition: Partition) -> bool:
        """Add a partition that is led here; return whether its data was not yet removed in this epoch."""
        known = self._led.get(name)
        if known is not None and known.leader_epoch == partition.leader_epoch:
            return False
        self._led[name] = _UntieredPartition(partition, partition.leader_epoch)
        return True

    def end(self, name: TopicIdPartition) -> bool:
        """Forget a partition: it is tiered again, led elsewhere or gone. Return whether it was known."""
        return self._led.pop(name, None) is not None

    def due(self, removing: Container[TopicIdPartition]) -> list[tuple[TopicIdPartition, Partition]]:
        """Return the partitions whose removal has to start again: they had data for the grace period.

        `removing` are those whose removal is running.
        """
        now_ms = self._tools.runtime.clock.monotonic_ms()
        grace_ms = self._tools.config().crabka_remote_leftover_grace_ms
        due = []
        for name, known in self._led.items():
            if name in removing or not self._holds(name):
                known.found_ms = None
            elif known.found_ms is None:
                known.found_ms = now_ms
            elif now_ms - known.found_ms >= grace_ms:
                due.append((name, known.partition))
        return due

    def _holds(self, name: TopicIdPartition) -> bool:
        """Return whether the tier is known to hold anything of a partition."""
        metadata = self._tools.metadata
        return metadata.is_ready(name) and any(True for _ in metadata.list_remote_log_segments(name))
