from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from crabka.errors import CorruptDataError
from crabka.ids import DIRECTORY_MIGRATING
from crabka.metadata.records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    at_version,
)
from crabka.metadata.topics import TopicsDelta, TopicsImage

A, B = UUID(int=100), UUID(int=200)
D1, D2 = UUID(int=301), UUID(int=302)


def _partition(topic_id: UUID = A, index: int = 0, **changes: Any) -> PartitionRecord:
    values: dict[str, Any] = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "directories": (D1, D2)}
    return PartitionRecord(topic_id=topic_id, partition_id=index, replicas=(1, 2), isr=(1, 2), **{**values, **changes})


def _image() -> TopicsImage:
    delta = TopicsDelta(TopicsImage())
    delta.create_topic(TopicRecord(name="a", topic_id=A))
    delta.create_partition(_partition())
    return delta.apply()


def test_a_topic_is_found_by_id_and_by_name() -> None:
    image = _image()
    assert image.by_id[A] is image.by_name["a"]
    partition = image.partition("a", 0)
    assert partition is not None
    assert partition.directory_of(2) == D2
    assert image.partition("a", 1) is None
    assert image.partition("b", 0) is None


def test_records_of_an_image_rebuild_it() -> None:
    image = _image()
    records = list(image.to_records())
    assert records == [TopicRecord(name="a", topic_id=A), _partition()]


def test_a_change_without_leader_raises_only_the_partition_epoch() -> None:
    delta = TopicsDelta(_image())
    delta.change_partition(PartitionChangeRecord(topic_id=A, partition_id=0, isr=(1,), eligible_leader_replicas=(2,)))
    partition = delta.apply().by_name["a"].partitions[0]
    assert (partition.isr, partition.elr) == ((1,), (2,))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 1)


def test_a_change_of_leader_raises_both_epochs_even_to_the_same_leader() -> None:
    delta = TopicsDelta(_image())
    delta.change_partition(PartitionChangeRecord(topic_id=A, partition_id=0, leader=1))
    delta.change_partition(PartitionChangeRecord(topic_id=A, partition_id=0, leader=-1, leader_recovery_state=1))
    partition = delta.apply().by_name["a"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, 2, 2)
    assert partition.leader_recovery_state == 1


def test_a_reassignment_changes_replicas_and_directories_together() -> None:
    delta = TopicsDelta(_image())
    delta.change_partition(
        PartitionChangeRecord(
            topic_id=A,
            partition_id=0,
            replicas=(1, 2, 3),
            directories=(D1, D2, D1),
            adding_replicas=(3,),
            removing_replicas=(2,),
        )
    )
    partition = delta.apply().by_name["a"].partitions[0]
    assert (partition.replicas, partition.adding, partition.removing) == ((1, 2, 3), (3,), (2,))
    with pytest.raises(CorruptDataError, match="2 directories for 1 replicas"):
        TopicsDelta(_image()).change_partition(PartitionChangeRecord(topic_id=A, partition_id=0, replicas=(1,)))


def test_replicas_of_an_old_record_have_no_directory_yet() -> None:
    delta = TopicsDelta(_image())
    delta.create_partition(at_version(_partition(index=1, directories=()), 0))
    assert delta.apply().by_name["a"].partitions[1].directories == (DIRECTORY_MIGRATING,) * 2


def test_a_reassignment_before_directories_changes_replicas_alone() -> None:
    delta = TopicsDelta(_image())
    delta.create_partition(at_version(_partition(index=1, directories=()), 0))
    delta.change_partition(PartitionChangeRecord(partition_id=1, topic_id=A, replicas=(1, 2, 3)))
    assert delta.apply().by_name["a"].partitions[1].directories == (DIRECTORY_MIGRATING,) * 3


def test_the_delta_says_what_changed() -> None:
    delta = TopicsDelta(_image())
    delta.create_topic(TopicRecord(name="b", topic_id=B))
    delta.create_partition(_partition(B))
    delta.create_partition(_partition(A, 1))
    assert (delta.created, delta.changed, delta.deleted) == ({B}, {A}, set())
    assert delta.remove_topic(RemoveTopicRecord(topic_id=A)) == "a"
    delta.remove_topic(RemoveTopicRecord(topic_id=B))
    assert (delta.created, delta.changed, delta.deleted) == (set(), set(), {A})
    image = delta.apply()
    assert (image.by_id, image.by_name) == ({}, {})


def test_a_topic_that_is_deleted_and_made_again_keeps_its_new_id() -> None:
    delta = TopicsDelta(_image())
    delta.remove_topic(RemoveTopicRecord(topic_id=A))
    delta.create_topic(TopicRecord(name="a", topic_id=B))
    image = delta.apply()
    assert image.by_name["a"].topic_id == B
    assert list(image.by_id) == [B]


def test_applying_does_not_touch_the_image_before() -> None:
    before = _image()
    delta = TopicsDelta(before)
    delta.create_partition(_partition(A, 1))
    delta.create_topic(TopicRecord(name="b", topic_id=B))
    delta.apply()
    assert list(before.by_name) == ["a"]
    assert list(before.by_name["a"].partitions) == [0]


def test_untouched_topics_are_shared_between_images() -> None:
    before = _image()
    delta = TopicsDelta(before)
    delta.create_topic(TopicRecord(name="b", topic_id=B))
    assert delta.apply().by_name["a"] is before.by_name["a"]
    assert TopicsDelta(before).apply() is before


@pytest.mark.parametrize("name", ["", "a"])
def test_clearing_elrs_empties_both_lists_and_raises_the_partition_epoch(name: str) -> None:
    delta = TopicsDelta(_image())
    delta.change_partition(
        PartitionChangeRecord(topic_id=A, partition_id=0, eligible_leader_replicas=(2,), last_known_elr=(1,))
    )
    delta.clear_elr(ClearElrRecord(topic_name=name))
    partition = delta.apply().by_name["a"].partitions[0]
    assert (partition.elr, partition.last_known_elr, partition.partition_epoch) == ((), (), 2)


def test_clearing_elrs_leaves_partitions_without_any() -> None:
    image = _image()
    delta = TopicsDelta(image)
    delta.clear_elr(ClearElrRecord(topic_name=""))
    assert delta.apply() is image


def test_records_about_unknown_topics_and_partitions_are_refused() -> None:
    delta = TopicsDelta(_image())
    with pytest.raises(CorruptDataError, match="does not exist"):
        delta.remove_topic(RemoveTopicRecord(topic_id=B))
    with pytest.raises(CorruptDataError, match="does not exist"):
        delta.create_partition(_partition(B))
    with pytest.raises(CorruptDataError, match="unknown"):
        delta.change_partition(PartitionChangeRecord(topic_id=A, partition_id=9))
    with pytest.raises(CorruptDataError, match="does not exist"):
        delta.clear_elr(ClearElrRecord(topic_name="b"))
