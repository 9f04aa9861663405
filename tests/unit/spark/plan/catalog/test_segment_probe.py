from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crabka.formats.file_names import LOG_SUFFIX
from crabka.remote.errors import RemoteBackendError
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.spark.access.tier_store import open_tier_store
from crabka.spark.plan.catalog.segment_probe import ListedSegment, SegmentProbe, UnusableSegmentError
from tests.support.tiers.planted import PlantedTier, batches, two_segments
from tests.support.tiers.stores import store_of, write_tier


def listed(tier: PlantedTier, segment: RemoteLogSegmentMetadata) -> ListedSegment:
    """What a listing of the tier shows of a segment."""
    path = object_path(segment).removesuffix(LOG_SUFFIX)
    parts = {each.key.removeprefix(path): each for each in store_of(tier).list() if each.key.startswith(path)}
    return ListedSegment(segment.topic_id_partition, segment.start_offset, segment.segment_id.id, path, parts)


def probed(tier: PlantedTier, segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    return SegmentProbe(store_of(tier)).read(listed(tier, segment))


def test_a_probe_finds_what_the_metadata_says() -> None:
    tier = two_segments()
    for segment in tier.segments:
        assert probed(tier, segment) == replace(segment, broker_id=-1, event_timestamp_ms=-1)


def test_only_the_end_of_a_large_segment_is_read() -> None:
    tier = PlantedTier()
    segment = tier.add(batches(0, 400, value=b"x" * 2000), [(0, 0)])
    store = store_of(tier)
    read: list[int] = []
    whole = store.get_range

    def count(key: str, span: range) -> memoryview:
        read.append(len(span))
        return whole(key, span)

    store.get_range = count  # type: ignore[method-assign]
    SegmentProbe(store).read(listed(tier, segment))
    assert sum(read) < segment.segment_size_bytes / 20


def test_an_index_without_entries_is_no_reason() -> None:
    tier = two_segments()
    tier.put(tier.segments[0], IndexType.OFFSET, b"")
    assert probed(tier, tier.segments[0]).end_offset == 29


@pytest.mark.parametrize("cut", [1, 60, 100])
def test_a_segment_that_ends_inside_of_a_batch_does_not_count(cut: int) -> None:
    tier = two_segments()
    segment = tier.segments[0]
    tier.put(segment, None, tier.get(segment, None)[:-cut])
    with pytest.raises(UnusableSegmentError, match="whole batch"):
        probed(tier, segment)


def test_other_damage_is_a_reason_too() -> None:
    tier = two_segments()
    first, second = tier.segments
    tier.put(first, IndexType.LEADER_EPOCH, b"x")
    with pytest.raises(UnusableSegmentError, match="checkpoint"):
        probed(tier, first)
    tier.put(second, None, bytes(len(tier.get(second, None))))
    with pytest.raises(UnusableSegmentError, match="no batch at position"):
        probed(tier, second)


def test_a_segment_without_bytes_does_not_count() -> None:
    tier = two_segments()
    tier.put(tier.segments[0], None, b"")
    with pytest.raises(UnusableSegmentError):
        probed(tier, tier.segments[0])


def test_an_object_that_shrank_since_it_was_listed_makes_a_segment_unusable(tmp_path: Path) -> None:
    tier = two_segments()
    segment = tier.segments[0]
    store = open_tier_store(write_tier(tier, tmp_path), {})
    found = listed(tier, segment)
    assert SegmentProbe(store).read(found).end_offset == 29
    (tmp_path / "kafka-tiered-storage" / object_path(segment)).write_bytes(b"short")
    with pytest.raises(UnusableSegmentError, match="its objects changed while they were looked at"):
        SegmentProbe(store).read(found)


def test_a_store_that_fails_is_no_reason_to_pass_over_a_segment() -> None:
    tier = two_segments()
    store = store_of(tier)

    def fail(key: str, span: range) -> memoryview:
        raise RemoteBackendError(f"the network is down: {key} {span}", retriable=True)

    store.get_range = fail  # type: ignore[method-assign]
    segment = tier.segments[0]
    with pytest.raises(RemoteBackendError, match="the network is down"):
        SegmentProbe(store).read(listed(tier, segment))
