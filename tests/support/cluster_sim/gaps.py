"""How long partitions cannot be written after their leader was killed, in virtual time."""

from __future__ import annotations

from crabka.ids import TopicPartition
from crabka.metadata.image import MetadataImage


class GapMeter:
    """Waits for the first acknowledgement of a record that was sent after the kill."""

    def __init__(self) -> None:
        self.gaps_s: list[float] = []
        self._waiting: dict[TopicPartition, float] = {}

    def leader_killed(self, broker_id: int, image: MetadataImage, topics: set[str], now_s: float) -> None:
        """A broker dies while all is well; what it led has others in sync."""
        for name in topics:
            for index, partition in image.topics.by_name[name].partitions.items():
                if partition.leader == broker_id and len(partition.isr) > 1:
                    self._waiting[TopicPartition(name, index)] = now_s

    def forget(self) -> None:
        """Something else went wrong: what is open would measure that."""
        self._waiting.clear()

    def acknowledged(self, where: TopicPartition, sent_s: float, now_s: float) -> None:
        """A record was acknowledged."""
        killed_s = self._waiting.get(where)
        if killed_s is not None and sent_s >= killed_s:
            del self._waiting[where]
            self.gaps_s.append(now_s - killed_s)
