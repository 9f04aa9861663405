"""What a move needs of the node that it runs on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from crabka.broker.logdirs.move_throttle import MoveThrottle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.broker.partition.partition import Partition
    from crabka.ids import TopicPartition
    from crabka.log.dirs.log_manager import LogManager
    from crabka.ports import Runtime


class ReplicaAssignments(Protocol):
    """The controller's knowledge of where replicas lie (KIP-858)."""

    async def assign(self, partition: Partition, log_dir: str) -> None:
        """Return when the metadata that this node applied place the replica in a log dir. Asks until it is so."""
        ...


class PausableCleaner(Protocol):
    """The log cleaner, as far as moves disturb it."""

    async def pause(self, topic_partition: TopicPartition) -> None:
        """Leave a log alone until `resume`; returns when nothing of it is being cleaned."""
        ...

    def resume(self, topic_partition: TopicPartition) -> None:
        """Clean a log again when it is due."""
        ...

    async def save_checkpoints(self, paths: Iterable[str]) -> None:
        """Write how far the logs of these dirs are clean."""
        ...


@dataclass(slots=True, kw_only=True)
class MoveHost:
    """The node, seen from its moves."""

    runtime: Runtime
    logs: LogManager
    cleaner: PausableCleaner
    assignments: ReplicaAssignments
    throttle: MoveThrottle = field(default_factory=MoveThrottle)
