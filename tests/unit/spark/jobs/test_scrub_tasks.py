"""What a task finds in a segment, and how segments are shared out; the session is a fake that runs in this thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from crabka.records.header import iter_headers
from crabka.remote.backends.url import storage_settings_of_url
from crabka.remote.opening import open_storage_of
from crabka.remote.scrub import TierFaultKind, check_segment
from crabka.remote.segments import IndexType
from crabka.remote_topic.serde import encode_event
from crabka.spark.jobs.scrub_tasks import TASK_BYTES, ScrubTasks, check_row, checked_segment, waves
from tests.support.spark.one_thread import OneThreadSpark
from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import ORDERS, PlantedTier, batches, transaction, two_segments


def scrub(tmp_path: Path, tier: PlantedTier) -> tuple[list[TierFaultKind], int]:
    settings = storage_settings_of_url(write_tier(tmp_path, tier))
    read: list[int] = []
    found = ScrubTasks(cast("Any", OneThreadSpark()), settings)({ORDERS: tier.segments}, read.append)
    return [fault.kind for fault in found], sum(read)


def test_clean_segments_have_no_faults_and_their_bytes_are_reported(tmp_path: Path) -> None:
    tier = two_segments()
    assert scrub(tmp_path, tier) == ([], sum(segment.segment_size_bytes for segment in tier.segments))


def test_every_part_of_a_segment_is_checked(tmp_path: Path) -> None:
    tier = two_segments()
    tier.flip(tier.segments[0], None, -9)
    tier.put(tier.segments[1], IndexType.OFFSET, b"\0" * 7)
    tier.put(tier.segments[1], IndexType.TIMESTAMP, b"\0" * 7)
    kinds, _ = scrub(tmp_path, tier)
    assert kinds == [TierFaultKind.CORRUPT_BATCH, TierFaultKind.BAD_INDEX, TierFaultKind.BAD_INDEX]


def test_copies_that_differ_are_found_across_tasks(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(0, 4), [(0, 0)])
    tier.add(batches(0, 4), [(0, 0)])
    assert scrub(tmp_path, tier)[0] == []
    other = PlantedTier()
    other.add(batches(0, 4), [(0, 0)])
    other.add(batches(0, 4, value=b"other"), [(0, 0)])
    assert scrub(tmp_path / "other", other)[0] == [TierFaultKind.COPIES_DIFFER]


def test_segments_are_compared_with_their_neighbours(tmp_path: Path) -> None:
    spanning = transaction(10, committed=False)
    cut = [position for position, _ in iter_headers(spanning)][1]
    tier = PlantedTier()
    tier.add(batches(0, 2) + spanning[:cut], [(0, 0)])
    tier.add(spanning[cut:] + batches(13, 1, epoch=1), [(0, 0), (1, 13)])
    tier.add(batches(18, 1, epoch=1), [(0, 0), (1, 13)])
    assert scrub(tmp_path, tier)[0] == [TierFaultKind.BAD_INDEX], "the abort is not in the index"
    tier.put(tier.segments[2], IndexType.LEADER_EPOCH, b"0\n2\n0 0\n1 12\n")
    assert scrub(tmp_path / "other", tier)[0] == [TierFaultKind.BAD_INDEX] * 2


def test_findings_are_the_same_as_without_tasks(tmp_path: Path) -> None:
    tier = two_segments()
    segment = tier.segments[0]
    tier.flip(segment, None, -9)
    storage = open_storage_of(storage_settings_of_url(write_tier(tmp_path, tier)))
    direct = check_segment(storage, segment, remember=range(10, 20))
    found = checked_segment(segment, *check_row(storage, encode_event(segment), range(10, 20)))
    assert found.faults == direct.faults
    assert found.fingerprints == direct.fingerprints != {}
    assert found.checkpoint == direct.checkpoint != ()
    storage.close()


def test_only_segments_are_checked(tmp_path: Path) -> None:
    tier = two_segments()
    with pytest.raises(TypeError):
        check_row(tier.storage, encode_event(tier.events[1]), range(0))


def test_small_tiers_are_one_job_and_large_ones_several() -> None:
    from dataclasses import replace

    small = two_segments().segments
    assert [len(wave) for wave in waves(small)] == [2]
    large = [replace(small[0], segment_size_bytes=4 * TASK_BYTES) for _ in range(100)]
    parts = [len(wave) for wave in waves(large)]
    assert sum(parts) == 100
    assert len(parts) == 20
    assert list(waves([])) == []
