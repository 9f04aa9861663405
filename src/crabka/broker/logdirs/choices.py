"""Log dirs that were chosen for replicas before these exist here (AlterReplicaLogDirs, KIP-113).

A choice is used when the replica is created and forgotten then. It lives in memory, as in Kafka; how many there are is
bounded, because any client may choose for any name.
"""

from __future__ import annotations

from typing import Final

from crabka.ids import TopicPartition

MAX_CHOICES: Final = 10_000


class RememberedChoices:
    """Topic and partition → log dir, the oldest choice forgotten first."""

    __slots__ = ("_chosen",)

    def __init__(self) -> None:
        self._chosen: dict[TopicPartition, str] = {}

    def __len__(self) -> int:
        return len(self._chosen)

    def remember(self, topic_partition: TopicPartition, log_dir: str) -> None:
        """Choose a log dir for a replica that is not here; a later choice replaces an earlier one."""
        self._chosen.pop(topic_partition, None)
        self._chosen[topic_partition] = log_dir
        if len(self._chosen) > MAX_CHOICES:
            del self._chosen[next(iter(self._chosen))]

    def get(self, topic_partition: TopicPartition) -> str | None:
        """Return what was chosen for a replica."""
        return self._chosen.get(topic_partition)

    def take(self, topic_partition: TopicPartition) -> str | None:
        """Return what was chosen for a replica that is created now, and forget it."""
        return self._chosen.pop(topic_partition, None)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget a choice: the replica is where it is. Unknown ones are fine."""
        self._chosen.pop(topic_partition, None)
