from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from crabka.ids import TopicPartition
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType
from crabka.spark.errors import DataLossError
from crabka.spark.plan.catalog import lost_segments
from crabka.spark.plan.catalog.segments import TierCatalog
from crabka.spark.plan.catalog.snapshot_catalog import write_snapshot_file
from crabka.spark.plan.planner import plan_offsets, plan_read
from tests.support.tiers.plans import options, spans
from tests.support.tiers.planted import ORDERS, PlantedTier, batches
from tests.support.tiers.stores import write_tier

pytestmark = pytest.mark.usefixtures("plan_cache")

O0 = TopicPartition("orders", 0)
OBJECTS = [None, IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT, IndexType.LEADER_EPOCH]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_segments, "LOOK_AGAIN_AFTER_S", 0)


def three_segments() -> PlantedTier:
    tier = PlantedTier()
    for start in (0, 30, 60):
        tier.add(batches(start, 6), [(0, 0)])
    return tier


def write_old(tier: PlantedTier, path: Path) -> str:
    """Write a tier whose objects are there for long."""
    uri = write_tier(tier, path)
    for file in path.rglob("*"):
        os.utime(file, (1_000_000, 1_000_000))
    return uri


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_segment_that_lacks_an_object_ends_the_read(tmp_path: Path, number: int, kind: IndexType | None) -> None:
    tier = three_segments()
    tier.remove(tier.segments[number], kind)
    uri = write_old(tier, tmp_path)
    with pytest.raises(DataLossError) as caught:
        plan_read(options(uri))
    assert object_path(tier.segments[number], kind) in str(caught.value)
    rest = [(start, start + 30) for start in (0, 30, 60) if start != 30 * number]
    assert spans(plan_read(options(uri, failOnDataLoss="false"))) == rest


def test_reads_of_other_offsets_go_on(tmp_path: Path) -> None:
    tier = three_segments()
    tier.remove(tier.segments[0], None)
    uri = write_old(tier, tmp_path)
    later = {"startingOffsets": '{"orders":{"0":35}}'}
    assert spans(plan_read(options(uri, **later))) == [(35, 60), (60, 90)]
    tier.remove(tier.segments[2], None)
    uri = write_old(tier, tmp_path / "both")
    assert spans(plan_read(options(uri, **later, endingOffsets='{"orders":{"0":40}}'))) == [(35, 40)]
    with pytest.raises(DataLossError, match="is missing or damaged in the tier"):
        plan_read(options(uri, **later))
    # A table that has all there is must not say that all is well.
    with pytest.raises(DataLossError, match="is missing or damaged in the tier"):
        plan_offsets(options(uri), {O0: 60}, None)


def test_a_partition_of_which_nothing_is_complete_is_lost(tmp_path: Path) -> None:
    tier = PlantedTier()
    tier.add(batches(0, 6), [(0, 0)])
    tier.remove(tier.segments[0], None)
    with pytest.raises(DataLossError, match=r"it has no \.log"):
        plan_read(options(write_old(tier, tmp_path)))


def test_the_last_segment_may_be_on_its_way(tmp_path: Path) -> None:
    tier = three_segments()
    tier.remove(tier.segments[2], None)
    plan = plan_read(options(write_tier(tier, tmp_path)))
    assert spans(plan) == [(0, 30), (30, 60)]
    assert len(plan.report.ignored) == 1
    # Copies follow each other: one that is not the last is not under way, however young it is.
    tier = three_segments()
    tier.remove(tier.segments[1], None)
    with pytest.raises(DataLossError, match="is missing or damaged"):
        plan_read(options(write_tier(tier, tmp_path / "other")))


def test_what_was_copied_anew_is_not_missed(tmp_path: Path) -> None:
    tier = three_segments()
    again = tier.add(batches(30, 6), [(0, 0)])
    tier.remove(again, None)
    within = tier.add(batches(45, 3), [(0, 0)])
    tier.remove(within, None)
    assert spans(plan_read(options(write_old(tier, tmp_path)))) == [(0, 30), (30, 60), (60, 90)]


def changing(path: Path, change: Callable[[Path], None]) -> Callable[[float], None]:
    """A pause in which all objects of the first segment change."""

    def sleep(_seconds: float) -> None:
        for file in path.rglob(f"{0:020d}-*"):
            change(file)

    return sleep


def test_a_deletion_that_goes_on_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = three_segments()
    tier.remove(tier.segments[0], None)
    uri = write_old(tier, tmp_path)
    monkeypatch.setattr("crabka.spark.plan.catalog.lost_segments.time.sleep", changing(tmp_path, Path.unlink))
    assert spans(plan_read(options(uri))) == [(30, 60), (60, 90)]


def test_an_exported_snapshot_decides_about_young_segments(tmp_path: Path) -> None:
    tier = three_segments()
    snapshot = tmp_path / "exported"
    write_snapshot_file(str(snapshot), TierCatalog({ORDERS: tier.segments}))
    tier.remove(tier.segments[2], IndexType.OFFSET)
    uri = write_tier(tier, tmp_path)
    assert len(spans(plan_read(options(uri)))) == 2
    with pytest.raises(DataLossError, match=r"it has no \.index|it has no index|is missing or damaged"):
        plan_read(options(uri, tier__snapshot=str(snapshot)))
