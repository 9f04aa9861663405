"""Images, deltas and records lead to the same state, however the records are cut into steps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from crabka.metadata.image import EMPTY_IMAGE, MetadataImage
from crabka.metadata.records import (
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from crabka.metadata.replay import MetadataReplay

NAMES = ("a", "b", "c")
Change = tuple[int, int, int]
Partitions = set[tuple[UUID, int]]
_change = st.tuples(st.sampled_from(range(8)), st.integers(0, 5), st.integers(0, 3))


def _record(
    change: tuple[int, int, int], offset: int, topics: dict[str, UUID], partitions: set[tuple[UUID, int]]
) -> Any:
    """Turn a draw into a record that fits the metadata so far; where none fits, into one that says nothing."""
    kind, number, other = change
    name = NAMES[number % len(NAMES)]
    topic_id = topics.get(name)
    match kind:
        case 0 if topic_id is None:
            topics[name] = UUID(int=10_000 + offset)
            return TopicRecord(name=name, topic_id=topics[name])
        case 1 if topic_id is not None and (topic_id, other) not in partitions:
            partitions.add((topic_id, other))
            return PartitionRecord(
                topic_id=topic_id, partition_id=other, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=0,
                partition_epoch=0, directories=(UUID(int=5_000), UUID(int=5_001)), eligible_leader_replicas=None,
            )  # fmt: skip
        case 2 if topic_id is not None and (topic_id, other) in partitions:
            elr = (2,) if number > 2 else None
            return PartitionChangeRecord(
                topic_id=topic_id, partition_id=other, leader=number - 2, isr=(1,), eligible_leader_replicas=elr
            )
        case 3 if topic_id is not None and other == 0:
            del topics[name]
            return RemoveTopicRecord(topic_id=topic_id)
        case 4:
            value = str(number) if number else None
            return ConfigRecord(resource_type=4, resource_name=name, name=f"k{other}", value=value)
        case 5:
            entity = (EntityData(entity_type="user", entity_name=name),)
            return ClientQuotaRecord(entity=entity, key=f"k{other}", value=float(number), remove=number == 0)
        case 6 if topic_id is not None:
            return ClearElrRecord(topic_name=name)
        case 7:
            return ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=offset * 1000)
    return NoOpRecord()


def _records(changes: list[Change]) -> list[Any]:
    topics: dict[str, UUID] = {}
    partitions: Partitions = set()
    first = FeatureLevelRecord(name="metadata.version", feature_level=30)
    return [first, *(_record(change, offset, topics, partitions) for offset, change in enumerate(changes, 1))]


def _replay(records: list[Any], publish_after: set[int]) -> MetadataImage:
    replay = MetadataReplay()
    for offset, record in enumerate(records):
        replay.replay(record, offset, 1)
        if offset in publish_after:
            replay.publish()
    replay.publish()
    return replay.image


@given(st.lists(_change, max_size=60), st.sets(st.integers(0, 60)))
def test_steps_of_any_size_lead_to_the_same_image(changes: list[Change], steps: set[int]) -> None:
    records = _records(changes)
    assert _replay(records, steps) == _replay(records, set())


@given(st.lists(_change, max_size=60))
def test_a_snapshot_of_an_image_rebuilds_it(changes: list[Change]) -> None:
    image = _replay(_records(changes), set())
    replay = MetadataReplay()
    for record in image.to_records():
        replay.replay(decode_record(encode_record(record)), image.offset, image.epoch)
    replay.publish()
    assert replay.image == image


@given(st.lists(_change, min_size=2, max_size=60))
def test_images_do_not_change_when_newer_ones_are_made(changes: list[Change]) -> None:
    records = _records(changes)
    middle = len(records) // 2
    replay = MetadataReplay(EMPTY_IMAGE)
    for offset, record in enumerate(records[:middle]):
        replay.replay(record, offset, 1)
    replay.publish()
    kept, before = replay.image, [encode_record(record) for record in replay.image.to_records()]
    for offset, record in enumerate(records[middle:], middle):
        replay.replay(record, offset, 1)
        replay.publish()
    assert [encode_record(record) for record in kept.to_records()] == before
