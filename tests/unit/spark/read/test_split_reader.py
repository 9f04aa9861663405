from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from crabka.remote.layout import object_path
from crabka.spark.access.tier_store import ObjectMissingError, TierStore, open_tier_store
from crabka.spark.decode import BatchDecoder, CorruptBatch
from crabka.spark.decode.batches import CorruptionListener
from crabka.spark.errors import DataLossError, TopicChangedError
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import ReadPlan, Split, TierRange
from crabka.spark.read import split_reader
from crabka.spark.read.split_reader import ReadSettings, read_split
from crabka.spark.read.tier_reader import RangeReadAhead
from tests.support.pickling import sent
from tests.support.tiers.plans import options
from tests.support.tiers.planted import ORDERS, PlantedTier, batches, two_segments
from tests.support.tiers.stores import write_tier

pytestmark = pytest.mark.usefixtures("plan_cache")


def offsets(plan: ReadPlan, chosen: SourceOptions) -> list[int]:
    settings = ReadSettings.of(chosen, ["offset"], plan.tier_uri)
    return [
        offset
        for split in plan.splits
        for batch in read_split(split, settings)
        for offset in batch.column("offset").to_pylist()
    ]


def test_all_rows_of_a_plan_are_read(tmp_path: Path) -> None:
    chosen = options(write_tier(two_segments(), tmp_path))
    assert offsets(plan_read(chosen), chosen) == list(range(60))
    chosen = options(f"file://{tmp_path}", minPartitions="4", maxRecordsPerPartition="7")
    plan = plan_read(chosen)
    assert len(plan.splits) >= 8
    assert sorted(offsets(plan, chosen)) == list(range(60))


def test_a_segment_that_was_copied_anew_meanwhile_is_found(tmp_path: Path) -> None:
    tier = two_segments()
    chosen = options(write_tier(tier, tmp_path))
    plan = plan_read(chosen)
    again = PlantedTier(first_id=500)
    again.add(batches(0, 6), [(0, 0)])
    write_tier(again, tmp_path)
    for path in (tmp_path / "kafka-tiered-storage").rglob(f"{Path(object_path(tier.segments[0])).stem}.*"):
        path.unlink()
    assert offsets(plan, chosen) == list(range(60))


def test_a_segment_that_is_gone_is_a_loss(tmp_path: Path) -> None:
    tier = two_segments()
    chosen = options(write_tier(tier, tmp_path))
    plan = plan_read(chosen)
    for path in (tmp_path / "kafka-tiered-storage").rglob(f"{Path(object_path(tier.segments[0])).stem}.*"):
        path.unlink()
    with pytest.raises(DataLossError, match="offsets 0 to 29 of orders-0 are gone"):
        offsets(plan, chosen)
    assert offsets(plan, options(f"file://{tmp_path}", failOnDataLoss="false")) == list(range(30, 60))


def test_a_topic_that_was_created_anew_meanwhile_is_a_loss(tmp_path: Path) -> None:
    chosen = options(write_tier(two_segments(), tmp_path))
    plan = plan_read(chosen)
    shutil.rmtree(tmp_path / "kafka-tiered-storage")
    write_tier(two_segments(replace(ORDERS, topic_id=uuid.UUID(int=0xFEDCBA)), first_id=500), tmp_path)
    with pytest.raises(TopicChangedError, match="the topic orders was deleted and created anew"):
        offsets(plan, chosen)
    assert offsets(plan, options(f"file://{tmp_path}", failOnDataLoss="false")) == []


def test_a_segment_that_cannot_be_had_however_often_it_is_planned_is_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tier = two_segments()
    chosen = options(write_tier(tier, tmp_path))
    plan = plan_read(chosen)
    first = object_path(tier.segments[0])

    def open_without_the_first(uri: str, settings: Mapping[str, str]) -> TierStore:
        store = open_tier_store(uri, settings)
        get_range = store.get_range

        def but_for_the_first(key: str, span: range) -> memoryview:
            if key.endswith(f"{Path(first).stem}.log"):
                raise ObjectMissingError("gone")
            return get_range(key, span)

        monkeypatch.setattr(store, "get_range", but_for_the_first)
        return store

    monkeypatch.setattr(split_reader, "open_tier_store", open_without_the_first)
    monkeypatch.setattr(split_reader, "_REPLAN_PAUSE_S", 0)
    with pytest.raises(DataLossError, match=f"{first} with offsets 0 to 29 is gone; set failOnDataLoss to false"):
        offsets(plan, chosen)
    assert offsets(plan, options(f"file://{tmp_path}", failOnDataLoss="false")) == list(range(30, 60))
    assert caplog.messages == [f"{first} with offsets 0 to 29 is gone; continuing, because failOnDataLoss is false"]


def test_a_segment_that_vanishes_after_the_last_offset_of_its_range_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last batch of the range reaches over its end, and all that is left of the object is not needed."""
    tier = two_segments()
    chosen = options(write_tier(tier, tmp_path))
    (first, *_) = plan_read(chosen).splits[0].ranges
    assert isinstance(first, TierRange)
    cut = replace(first, end_offset=28)

    def pieces(_ahead: RangeReadAhead, _index: int) -> Iterator[memoryview]:
        yield memoryview(tier.get(tier.segments[0], None))
        raise ObjectMissingError("gone")

    monkeypatch.setattr(RangeReadAhead, "pieces", pieces)
    rows = list(read_split(Split((cut,)), ReadSettings.of(chosen, ["offset"])))
    assert [offset for batch in rows for offset in batch.column("offset").to_pylist()] == list(range(28))


def test_a_corrupt_batch_fails_with_its_place_or_is_left_out(tmp_path: Path) -> None:
    tier = two_segments()
    tier.flip(tier.segments[0], None, -30)
    chosen = options(write_tier(tier, tmp_path))
    plan = plan_read(chosen)
    name = object_path(tier.segments[0])
    with pytest.raises(CorruptBatch, match=f"batch at offset 25 of orders-0, object {name}, position"):
        offsets(plan, chosen)
    assert offsets(plan, options(f"file://{tmp_path}", onCorrupt="report")) == [*range(25), *range(30, 60)]


def test_no_request_waits_for_compiled_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = options(write_tier(two_segments(), tmp_path))
    plan = plan_read(chosen)
    events: list[str] = []
    enter, prepare = RangeReadAhead.__enter__, BatchDecoder.__init__

    def entered(ahead: RangeReadAhead) -> RangeReadAhead:
        events.append("requests are under way")
        return enter(ahead)

    def prepared(decoder: BatchDecoder, columns: Sequence[str], *, on_corrupt: CorruptionListener | None) -> None:
        events.append("the decoder is made")
        prepare(decoder, columns, on_corrupt=on_corrupt)

    monkeypatch.setattr(RangeReadAhead, "__enter__", entered)
    monkeypatch.setattr(BatchDecoder, "__init__", prepared)
    assert offsets(plan, chosen) == list(range(60))
    assert events == ["requests are under way", "the decoder is made"]


def test_the_reader_can_be_imported_without_compiled_code() -> None:
    script = "import sys, crabka.spark.read.split_reader; sys.exit('crabka.spark.decode.kernels' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


GIVEN = {"kafka.bootstrap.servers": "x:1", "subscribe": "t"}


def test_columns_are_those_that_the_options_imply() -> None:
    plain = ReadSettings.of(SourceOptions.parse(GIVEN, streaming=False))
    assert plain.columns[-1] == "timestampType"
    headers = ReadSettings.of(SourceOptions.parse(GIVEN | {"includeHeaders": "true"}, streaming=False))
    assert headers.columns[-1] == "headers"
    assert ReadSettings.of(headers.options, ["offset"]).columns == ("offset",)


def test_settings_travel_to_executors() -> None:
    settings = ReadSettings.of(SourceOptions.parse(GIVEN, streaming=False), ["key"], "file:///x")
    assert sent(settings) == settings
