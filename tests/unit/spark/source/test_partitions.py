from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import datasource as pyspark_source

from crabka.spark.plan.planner import plan_read
from crabka.spark.read.settings import ReadSettings
from crabka.spark.source.options import SourceOptions
from crabka.spark.source.partitions import partitions_of, read_partition
from tests.support.pickling import sent
from tests.support.planted_tier import two_segments
from tests.support.tier_stores import write_tier


def test_partitions_travel_and_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    given = {"subscribe": "orders", "tier.uri": write_tier(two_segments(), tmp_path), "tier.metadata": "listing"}
    options = SourceOptions.parse(given, streaming=False)
    (partition,) = sent(partitions_of(plan_read(options)))
    batches = list(read_partition(partition, ReadSettings.of(options, ["offset"]), ("Offset",)))
    assert [offset for batch in batches for offset in batch.column("Offset").to_pylist()] == list(range(60))


def test_sparks_partition_for_nothing_has_no_rows() -> None:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t"}
    settings = ReadSettings.of(SourceOptions.parse(given, streaming=False))
    assert list(read_partition(pyspark_source.InputPartition(None), settings, settings.columns)) == []
