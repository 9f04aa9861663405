"""Partitions of an image with the changes that one request has made to them so far.

A request may name a partition twice, and one decision may follow from another: each must see what the ones before it
did, or the records of a batch would contradict each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.leadership import change_partition

if TYPE_CHECKING:
    from crabka.controller.control_view import ControlView
    from crabka.controller.partition_change import PartitionWish
    from crabka.ids import TopicId
    from crabka.metadata.records import PartitionChangeRecord
    from crabka.metadata.topics import PartitionImage, TopicImage


class PartitionEdits:
    """The records of a decision in the making, and the partitions as they will be."""

    def __init__(self, view: ControlView) -> None:
        self.view = view
        self.records: list[PartitionChangeRecord] = []
        self._edited: dict[tuple[TopicId, int], PartitionImage] = {}

    def partition(self, topic: TopicImage, index: int) -> PartitionImage | None:
        """Return a partition with all changes so far; None if there is none of this index."""
        return self._edited.get((topic.topic_id, index)) or topic.partitions.get(index)

    def change(self, topic: TopicImage, index: int, wish: PartitionWish) -> PartitionChangeRecord | None:
        """Fulfil a wish for a partition that exists; return its record, or None if nothing changes."""
        partition = self._edited.get((topic.topic_id, index)) or topic.partitions[index]
        record = change_partition(self.view, (topic, index, partition), wish)
        if record is not None:
            self.records.append(record)
            self._edited[topic.topic_id, index] = partition.merge(record)
        return record
