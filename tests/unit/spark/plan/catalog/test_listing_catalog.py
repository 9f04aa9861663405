from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from crabka.errors import ConfigError
from crabka.remote.segments import IndexType, TopicIdPartition
from crabka.spark.access.tier_store import ListedObject, open_tier_store
from crabka.spark.plan.catalog.cache_files import cache_path, load_cache
from crabka.spark.plan.catalog.listing_catalog import load_listing_catalog
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from tests.support.tiers.planted import ORDERS, PlantedTier, batches, two_segments
from tests.support.tiers.stores import store_of, write_tier

pytestmark = pytest.mark.usefixtures("plan_cache")

T = TypeVar("T")
R = TypeVar("R")


def test_all_complete_segments_count() -> None:
    tier = two_segments()
    catalog = load_listing_catalog(SegmentObjects(store_of(tier)), lambda topic: topic == "orders")
    found = catalog.of(ORDERS.topic_id, "orders", 0)
    assert [(each.start_offset, each.end_offset, each.leader_epochs) for each in found] == [
        (each.start_offset, each.end_offset, each.leader_epochs) for each in tier.segments
    ]
    assert catalog.ignored == ()


@pytest.mark.parametrize(
    "kind", [None, IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT, IndexType.LEADER_EPOCH]
)
def test_an_incomplete_segment_is_ignored_and_named(kind: IndexType | None) -> None:
    tier = two_segments()
    tier.remove(tier.segments[1], kind)
    catalog = load_listing_catalog(SegmentObjects(store_of(tier)), lambda _: True)
    assert len(catalog.of(ORDERS.topic_id, "orders", 0)) == 1
    suffix = ".log" if kind is None else kind.value
    assert catalog.ignored == (f"segment {30:020d} of {ORDERS}: it has no {suffix}",)


def test_a_torn_segment_is_ignored_and_named() -> None:
    tier = two_segments()
    tier.put(tier.segments[1], None, tier.get(tier.segments[1], None)[:-1])
    catalog = load_listing_catalog(SegmentObjects(store_of(tier)), lambda _: True)
    assert "does not end with a whole batch" in catalog.ignored[0]


def test_topics_that_are_not_wanted_and_strangers_are_passed_over() -> None:
    tier = two_segments()
    tier.storage.objects["holiday/photo.jpg"] = b"x"
    name = next(iter(tier.storage.objects))
    tier.storage.objects[f"{name}.tmp"] = b"x"
    store = store_of(tier)
    assert load_listing_catalog(SegmentObjects(store), lambda _: False).segments == {}
    assert store.asked == []
    assert len(load_listing_catalog(SegmentObjects(store), lambda _: True).segments) == 1


def test_a_second_look_reads_only_what_is_new() -> None:
    tier = two_segments()
    store = store_of(tier)
    first = load_listing_catalog(SegmentObjects(store), lambda _: True)
    store.asked.clear()
    assert load_listing_catalog(SegmentObjects(store), lambda _: True) == first
    assert store.asked == []
    added = tier.add(batches(60, 2, epoch=2), [(0, 0), (2, 45)])
    load_listing_catalog(SegmentObjects(store), lambda _: True)
    assert {key.rpartition("-")[2].partition(".")[0] for key in store.asked} == {
        key.rpartition("-")[2].partition(".")[0] for key in tier.storage.objects if f"{added.start_offset:020d}" in key
    }


def cached() -> set[tuple[TopicIdPartition, int]]:
    snapshot = load_cache(cache_path("listing", store_of(PlantedTier()).location))
    dumps = () if snapshot is None else snapshot.dump.partitions
    return {(dump.topic_id_partition, segment.start_offset) for dump in dumps for segment in dump.segments}


def test_what_is_gone_is_not_kept() -> None:
    users = TopicIdPartition(uuid.UUID(int=7), "users", 0)
    orders_objects, users_objects = two_segments().storage.objects, two_segments(users, first_id=50).storage.objects
    tier = PlantedTier()
    tier.storage.objects = orders_objects | users_objects
    store = store_of(tier)
    load_listing_catalog(SegmentObjects(store), lambda _: True)
    assert cached() == {(ORDERS, 0), (ORDERS, 30), (users, 0), (users, 30)}
    # Of topics that are not asked for all is kept as long as the tier has them.
    load_listing_catalog(SegmentObjects(store), lambda topic: topic == "users")
    assert cached() == {(ORDERS, 0), (ORDERS, 30), (users, 0), (users, 30)}
    for key in [key for key in store.objects if key.startswith("users") or f"{30:020d}" in key]:
        del store.objects[key]
    load_listing_catalog(SegmentObjects(store), lambda topic: topic == "users")
    assert cached() == {(ORDERS, 0), (ORDERS, 30)}
    load_listing_catalog(SegmentObjects(store), lambda topic: topic == "orders")
    assert cached() == {(ORDERS, 0)}


def test_two_topics_of_one_name_are_an_error_that_names_both() -> None:
    tier = two_segments()
    other = TopicIdPartition(uuid.UUID(int=99), "orders", 0)
    merged = PlantedTier()
    merged.storage.objects = tier.storage.objects | two_segments(other, first_id=50).storage.objects
    catalog = load_listing_catalog(SegmentObjects(store_of(merged)), lambda _: True)
    with pytest.raises(ConfigError, match=r"two topics orders, A+Yw and A+KvN7w; choose one by tier\.topicId"):
        catalog.topic_ids()
    assert catalog.topic_ids(uuid.UUID(int=99)) == {"orders": uuid.UUID(int=99)}


def test_what_is_known_is_not_asked_for_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty thousand segments that are known must not become as many jobs of a pool."""
    objects = SegmentObjects(store_of(two_segments()))
    load_listing_catalog(objects, lambda _: True)
    asked: list[int] = []

    def for_all(items: Iterable[T], ask: Callable[[T], R]) -> list[R]:
        wanted = list(items)
        asked.append(len(wanted))
        return [ask(each) for each in wanted]

    monkeypatch.setattr(objects, "for_all", for_all)
    assert len(load_listing_catalog(objects, lambda _: True).segments[ORDERS]) == 2
    assert asked == [1, 0]  # one directory, no segment


def test_of_what_is_known_only_the_size_of_the_batches_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of 20,000 segments has 100,000 files."""
    store = open_tier_store(write_tier(two_segments(), tmp_path), {})
    first = load_listing_catalog(SegmentObjects(store), lambda _: True)
    looked_at: list[str] = []
    listing = store.list

    class Watched:
        def __init__(self, listed: ListedObject) -> None:
            self.key = listed.key
            self._listed = listed

        @property
        def size_bytes(self) -> int:
            looked_at.append(self.key)
            return self._listed.size_bytes

        @property
        def modified_ms(self) -> int:
            looked_at.append(self.key)
            return self._listed.modified_ms

    monkeypatch.setattr(store, "list", lambda directory: map(Watched, listing(directory)))
    assert load_listing_catalog(SegmentObjects(store), lambda _: True) == first
    assert [key.rpartition(".")[2] for key in looked_at] == ["log", "log"]


def test_a_known_segment_that_is_deleted_meanwhile_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_tier_store(write_tier(two_segments(), tmp_path), {})
    load_listing_catalog(SegmentObjects(store), lambda _: True)
    listing = store.list

    def list_and_delete(directory: str) -> Iterator[ListedObject]:
        found = list(listing(directory))
        for path in tmp_path.rglob(f"{30:020d}*"):
            path.unlink()
        return iter(found)

    monkeypatch.setattr(store, "list", list_and_delete)
    catalog = load_listing_catalog(SegmentObjects(store), lambda _: True)
    assert [each.start_offset for each in catalog.of(ORDERS.topic_id, "orders", 0)] == [0]
    assert catalog.ignored == (f"segment {30:020d} of {ORDERS}: it is being deleted",)
