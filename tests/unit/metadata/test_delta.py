from __future__ import annotations

import dataclasses
from uuid import UUID

import pytest

from crabka.metadata.configs import ConfigResource, ConfigResourceType
from crabka.metadata.delta import MetadataDelta
from crabka.metadata.image import EMPTY_IMAGE, MetadataImage
from crabka.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)

A, B = UUID(int=1000), UUID(int=1001)


def _config(value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name="t", name="k", value=value)


def _with_topic() -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(TopicRecord(name="t", topic_id=A))
    delta.replay(_config("1"))
    return delta.apply(1, 1)


def test_a_delta_says_what_changed() -> None:
    delta = MetadataDelta(_with_topic())
    delta.replay(TopicRecord(name="u", topic_id=B))
    delta.replay(RemoveTopicRecord(topic_id=A))
    delta.replay(FeatureLevelRecord(name="group.version", feature_level=1))
    delta.replay(RegisterBrokerRecord(broker_id=4, incarnation_id=A, broker_epoch=1, rack=None))
    assert delta.topics_created == {B}
    assert delta.topics_deleted == {A}
    assert delta.topics_changed == set()
    assert delta.configs_changed == {ConfigResource(ConfigResourceType.TOPIC, "t")}
    assert delta.features_changed
    assert delta.brokers_changed == {4}


def test_a_deleted_topic_takes_its_configs_along() -> None:
    delta = MetadataDelta(_with_topic())
    delta.replay(RemoveTopicRecord(topic_id=A))
    assert delta.apply(2, 1).configs.get(ConfigResourceType.TOPIC, "t") == {}


def test_a_new_topic_does_not_inherit_configs_left_in_a_jvm_snapshot() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(_config("stale"))
    delta.replay(TopicRecord(name="t", topic_id=A))
    assert delta.apply(1, 1).configs.get(ConfigResourceType.TOPIC, "t") == {}


def test_records_that_say_nothing_change_nothing() -> None:
    image = _with_topic()
    delta = MetadataDelta(image)
    delta.replay(NoOpRecord())
    delta.replay(ZkMigrationStateRecord(zk_migration_state=0))
    after = delta.apply(3, 2)
    assert (after.offset, after.epoch) == (3, 2)
    assert after.topics is image.topics
    assert dataclasses.replace(after, offset=image.offset, epoch=image.epoch) == image


def test_an_image_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        EMPTY_IMAGE.offset = 5  # type: ignore[misc]
