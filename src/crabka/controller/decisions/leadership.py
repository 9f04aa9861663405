"""Changes of partitions that follow from changes of a broker or a log dir (ReplicationControlManager).

Each function returns PartitionChangeRecords. The broker's own registration is decided on in `broker_changes`; the
request that led to the change does not matter here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.controller.decisions.partition_change import (
    ChangeRules,
    Election,
    PartitionPlace,
    PartitionTarget,
    build_partition_change,
)
from crabka.metadata.topics import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.controller.decisions.control_view import ControlView
    from crabka.ids import TopicId
    from crabka.metadata.records import PartitionChangeRecord
    from crabka.metadata.topics import PartitionImage, TopicImage

    PartitionRow = tuple[TopicImage, int, PartitionImage]


def change_partition(
    view: ControlView,
    row: PartitionRow,
    target: PartitionTarget,
    *,
    is_active: Callable[[int], bool] | None = None,
) -> PartitionChangeRecord | None:
    """Return the record that reaches a target under the rules of the partition's topic.

    `is_active` decides which brokers may lead where the image is not up to date yet.
    """
    topic, index, partition = row
    active = view.is_active if is_active is None else is_active
    rules = ChangeRules(
        can_lead=lambda broker_id: active(broker_id) and has_reachable_replica(view, partition, broker_id),
        default_directory=view.default_directory,
        metadata_version=view.metadata_version,
        min_isr=view.min_isr(topic),
        elr_enabled=view.elr_enabled,
    )
    return build_partition_change(PartitionPlace(topic.topic_id, index), partition, target, rules)


class PartitionEdits:
    """Partitions of an image with the changes that one request has made to them so far.

    A request may name a partition twice, and one decision may follow from another: each must see the changes before
    it, or the records of a batch would contradict each other.
    """

    def __init__(self, view: ControlView) -> None:
        self.view = view
        self.records: list[PartitionChangeRecord] = []
        self._edited: dict[tuple[TopicId, int], PartitionImage] = {}

    def partition(self, topic: TopicImage, index: int) -> PartitionImage | None:
        """Return a partition with all changes so far; None if there is none of this index."""
        return self._edited.get((topic.topic_id, index)) or topic.partitions.get(index)

    def change(self, topic: TopicImage, index: int, target: PartitionTarget) -> PartitionChangeRecord | None:
        """Change an existing partition towards a target; return its record, or None if nothing changes."""
        partition = self._edited.get((topic.topic_id, index)) or topic.partitions[index]
        record = change_partition(self.view, (topic, index, partition), target)
        if record is not None:
            self.records.append(record)
            self._edited[topic.topic_id, index] = partition.merge(record)
        return record


def has_reachable_replica(view: ControlView, partition: PartitionImage, broker_id: int) -> bool:
    """Return whether a broker has a replica of a partition in a log dir that works."""
    return broker_id in partition.replicas and view.has_online_directory(broker_id, partition.directory_of(broker_id))


def configured_election(view: ControlView, topic: TopicImage) -> Election:
    """Return the elections that the controller may hold itself for partitions of this topic."""
    return Election.UNCLEAN if view.unclean_election_enabled(topic) else Election.ONLINE


def without_broker(view: ControlView, broker_id: int, rows: Iterable[PartitionRow]) -> list[PartitionChangeRecord]:
    """Remove a broker that is fenced, stops or lost a log dir from ISR and leadership."""
    return _updates(view, rows, removed=broker_id, is_active=lambda each: each != broker_id and view.is_active(each))


def after_unclean_shutdown(
    view: ControlView, broker_id: int, rows: Iterable[PartitionRow]
) -> list[PartitionChangeRecord]:
    """Remove a broker that may have lost acknowledged records from ISR, eligible replicas and leadership."""
    return _updates(
        view,
        rows,
        removed=broker_id,
        unclean=True,
        is_active=lambda each: each != broker_id and view.is_active(each),
    )


def with_broker(view: ControlView, broker_id: int) -> list[PartitionChangeRecord]:
    """Elect leaders where there is none, now that a broker is unfenced; the image still shows it as fenced."""
    rows = [row for row in view.partitions() if row[2].leader == NO_LEADER]
    return _updates(view, rows, removed=None, is_active=lambda each: each == broker_id or view.is_active(each))


def partitions_in_sync_on(view: ControlView, broker_id: int) -> list[PartitionRow]:
    """Return the partitions with a broker in their ISR, led or followed."""
    return [row for row in view.partitions() if broker_id in row[2].isr or row[2].leader == broker_id]


def partitions_eligible_on(view: ControlView, broker_id: int) -> list[PartitionRow]:
    """Return the partitions with a broker in their ISR or among their eligible replicas."""
    return [row for row in view.partitions() if broker_id in row[2].isr or broker_id in row[2].elr]


def led_partition_count(view: ControlView, broker_id: int) -> int:
    """Return how many partitions a broker leads."""
    return sum(partition.leader == broker_id for _, _, partition in view.partitions())


def _updates(
    view: ControlView,
    rows: Iterable[PartitionRow],
    *,
    removed: int | None,
    is_active: Callable[[int], bool],
    unclean: bool = False,
) -> list[PartitionChangeRecord]:
    records = []
    for row in rows:
        topic, _, partition = row
        target = PartitionTarget(
            isr=tuple(replica for replica in partition.isr if replica != removed),
            unclean_replica=removed if unclean else None,
            election=configured_election(view, topic),
        )
        record = change_partition(view, row, target, is_active=is_active)
        if record is not None:
            records.append(record)
    return records
