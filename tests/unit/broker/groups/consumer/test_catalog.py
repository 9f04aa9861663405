"""The view of topics that groups have."""

from __future__ import annotations

from tests.support.coordinators.consumer_groups import catalog_of, topic_id


def test_only_changes_count() -> None:
    catalog = catalog_of(t=2)
    version = catalog.version
    catalog.put("t", topic_id(0), [[], []])
    assert catalog.version == version
    catalog.put("t", topic_id(0), [[], [], []])
    assert catalog.version == version + 1
    assert catalog.by_id[topic_id(0)].partition_count == 3


def test_a_topic_that_is_made_again_has_only_its_new_id() -> None:
    catalog = catalog_of(t=2)
    catalog.put("t", topic_id(7), [[]])
    assert set(catalog.by_id) == {topic_id(7)}
    catalog.remove(topic_id(0))
    assert catalog.by_name["t"].topic_id == topic_id(7)
    catalog.remove(topic_id(7))
    assert not catalog.by_name


def test_the_hash_is_of_topics_that_exist() -> None:
    catalog = catalog_of(t=2, u=1)
    assert catalog.hash_of(["t", "gone"]) == catalog.hash_of(["t"]) != catalog.hash_of(["u"])
    assert catalog.hash_of(["gone"]) == 0
