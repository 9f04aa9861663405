from __future__ import annotations

from uuid import UUID

from crabka.metadata.delta import MetadataDelta
from crabka.metadata.image import EMPTY_IMAGE
from crabka.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RecordType,
    RegisterBrokerRecord,
    TopicRecord,
)

TOPIC_ID = UUID(int=50)
DIRECTORY = UUID(int=500)


def test_an_empty_image_has_no_records() -> None:
    assert EMPTY_IMAGE.is_empty
    assert EMPTY_IMAGE.to_records() == []


def test_records_come_in_the_order_of_kafkas_snapshots() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=1000))
    delta.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    delta.replay(ConfigRecord(resource_type=2, resource_name="t", name="k", value="v"))
    delta.replay(RegisterBrokerRecord(broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=1, rack=None))
    delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
    image = delta.apply(4, 1)
    assert not image.is_empty
    assert [record.__api_key__ for record in image.to_records()] == [
        RecordType.FEATURE_LEVEL,
        RecordType.REGISTER_BROKER,
        RecordType.TOPIC,
        RecordType.CONFIG,
        RecordType.PRODUCER_IDS,
    ]
    assert image.producer_ids.next_producer_id == 1000


def test_records_have_the_versions_of_the_clusters_level() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=19))
    delta.replay(RegisterBrokerRecord(broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=1, rack=None))
    delta.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    delta.replay(PartitionRecord(topic_id=TOPIC_ID, partition_id=0, replicas=(1,), isr=(1,), directories=(DIRECTORY,)))
    versions = [record.__version__ for record in delta.apply(4, 1).to_records()]
    assert versions == [0, 3, 0, 1]
