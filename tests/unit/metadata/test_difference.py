from __future__ import annotations

from crabka.metadata.difference import ImageDifference
from crabka.metadata.records import ConfigRecord, FeatureLevelRecord, RemoveTopicRecord
from tests.support.quorum.images import applied, cluster, with_topic


def test_a_difference_has_what_a_delta_would_have() -> None:
    before = with_topic(with_topic(cluster(1), "gone"), "stays")
    gone = before.topics.by_name["gone"].topic_id
    records = [
        RemoveTopicRecord(topic_id=gone),
        ConfigRecord(resource_type=2, resource_name="stays", name="retention.ms", value="5"),
        FeatureLevelRecord(name="group.version", feature_level=1),
    ]
    after = with_topic(applied(before, records), "new")
    difference = ImageDifference(before, after)
    assert difference.topics_created == {after.topics.by_name["new"].topic_id}
    assert difference.topics_deleted == {gone}
    assert difference.topics_changed == set()
    assert [resource.name for resource in difference.configs_changed] == ["stays"]
    assert difference.features_changed
    assert difference.brokers_changed == set()
    assert difference.image is before


def test_changed_partitions_and_brokers_are_found() -> None:
    before = with_topic(cluster(1), "t")
    other = with_topic(cluster(1, 2), "t", partition_count=2)
    difference = ImageDifference(before, other)
    assert difference.topics_changed == {before.topics.by_name["t"].topic_id}
    assert difference.brokers_changed == {2}


def test_equal_images_do_not_differ() -> None:
    image = with_topic(cluster(1), "t")
    difference = ImageDifference(image, image)
    assert difference.topics_changed == difference.topics_created == difference.topics_deleted == set()
    assert difference.configs_changed == set()
    assert not difference.features_changed
