"""Decisions that see what the ones before them did."""

from __future__ import annotations

from crabka.controller.control_view import ControlView
from crabka.controller.partition_change import PartitionWish
from crabka.controller.partition_edits import PartitionEdits
from tests.support.images import applied, cluster, partition_of, with_partitions


def test_a_second_change_builds_on_the_first() -> None:
    image = with_partitions(cluster(1, 2, 3), "t", {"replicas": (1, 2, 3)})
    topic = image.topics.by_name["t"]
    edits = PartitionEdits(ControlView(image))
    assert edits.change(topic, 0, PartitionWish(isr=(1, 2))) is not None
    assert edits.change(topic, 0, PartitionWish(isr=(1, 2))) is None
    assert edits.change(topic, 0, PartitionWish(isr=(1,))) is not None
    edited = edits.partition(topic, 0)
    assert edited == partition_of(applied(image, edits.records))
    assert edited is not None
    assert (edited.isr, edited.partition_epoch) == ((1,), 12)


def test_what_was_not_changed_is_that_of_the_image() -> None:
    image = with_partitions(cluster(1), "t", {"replicas": (1,)})
    topic = image.topics.by_name["t"]
    edits = PartitionEdits(ControlView(image))
    assert edits.partition(topic, 0) is topic.partitions[0]
    assert edits.partition(topic, 1) is None
