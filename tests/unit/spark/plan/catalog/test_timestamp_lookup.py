from __future__ import annotations

import pytest

from crabka.formats.leader_epochs import NO_END
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.spark.errors import SegmentVanishedError
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierPart, choose_parts
from crabka.spark.plan.catalog.timestamp_lookup import NO_MATCH, first_offset_at
from tests.support.tiers.planted import FIRST_TIMESTAMP_MS, PlantedTier, batches, two_segments
from tests.support.tiers.stores import store_of


def test_every_time_finds_its_first_record() -> None:
    tier = two_segments()
    parts = choose_parts(tier.segments, {0: 45, 2: NO_END})
    objects = SegmentObjects(store_of(tier))
    for offset in range(60):
        assert first_offset_at(objects, parts, FIRST_TIMESTAMP_MS + offset) == offset
    assert first_offset_at(objects, parts, 0) == 0
    assert first_offset_at(objects, parts, FIRST_TIMESTAMP_MS + 60) == NO_MATCH


def test_only_offsets_that_count_are_found() -> None:
    tier = PlantedTier()
    segment = tier.add(batches(0, 6), [(0, 0)])
    objects = SegmentObjects(store_of(tier))
    assert first_offset_at(objects, [TierPart(segment, 7, 12)], FIRST_TIMESTAMP_MS + 3) == 7
    assert first_offset_at(objects, [TierPart(segment, 7, 12)], FIRST_TIMESTAMP_MS + 12) == NO_MATCH


def test_times_that_go_down_again_do_no_harm() -> None:
    tier = PlantedTier()
    records = [Record(0, time, None, b"x") for time in (100, 900, 300, 500)]
    tier.add(b"".join(build_batch([r], base_offset=n, leader_epoch=0) for n, r in enumerate(records)), [(0, 0)])
    parts = choose_parts(tier.segments, {0: NO_END})
    objects = SegmentObjects(store_of(tier))
    assert first_offset_at(objects, parts, 400) == 1
    assert first_offset_at(objects, parts, 901) == NO_MATCH


def test_a_segment_that_vanishes_is_reported_as_such() -> None:
    tier = two_segments()
    parts = choose_parts(tier.segments, {0: 45, 2: NO_END})
    tier.remove(tier.segments[0], None)
    with pytest.raises(SegmentVanishedError, match=r"\.log is not in memory"):
        first_offset_at(SegmentObjects(store_of(tier)), parts, FIRST_TIMESTAMP_MS)
