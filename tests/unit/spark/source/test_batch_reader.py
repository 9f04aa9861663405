from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import datasource as pyspark_source

from crabka.spark.source.batch_reader import CrabkaBatchReader
from crabka.spark.source.options import SourceOptions
from tests.support.pickling import sent
from tests.support.planted_tier import FIRST_TIMESTAMP_MS, two_segments
from tests.support.tier_stores import write_tier


def reader(uri: str) -> CrabkaBatchReader:
    given = {"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing"}
    return CrabkaBatchReader(SourceOptions.parse(given, streaming=False), ("offset",), ("offset",))


def test_filters_prune_and_are_all_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    made = reader(write_tier(two_segments(), tmp_path))
    filters = [pyspark_source.GreaterThan(("offset",), 50), pyspark_source.IsNotNull(("offset",))]
    assert made.pushFilters(filters) is filters
    (partition,) = made.partitions()
    copy = sent(made)
    rows = [offset for batch in copy.read(partition) for offset in batch.column("offset").to_pylist()]
    assert rows == list(range(51, 60))


def test_times_arrive_as_spark_sends_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    made = reader(write_tier(two_segments(), tmp_path))
    late = datetime.fromtimestamp((FIRST_TIMESTAMP_MS + 55) / 1000, ZoneInfo("Asia/Tokyo"))
    made.pushFilters([pyspark_source.GreaterThanOrEqual(("timestamp",), late)])
    (partition,) = made.partitions()
    rows = [offset for batch in made.read(partition) for offset in batch.column("offset").to_pylist()]
    assert rows[-5:] == list(range(55, 60))
    assert len(rows) < 30


def test_spark_does_not_take_it_for_a_reader_that_insists_on_filters() -> None:
    base = pyspark_source.DataSourceReader.pushFilters
    assert getattr(reader("file:///x").pushFilters, "__func__", None) is base
