from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import datasource as pyspark_source

from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.planner import plan_read
from crabka.spark.read.split_reader import ReadSettings
from crabka.spark.source.batch_reader import CrabkaBatchReader, partitions_of, read_partition
from tests.support.pickling import sent
from tests.support.tiers.planted import two_segments
from tests.support.tiers.stores import write_tier


def reader(uri: str, **more: str) -> CrabkaBatchReader:
    given = {"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing"} | more
    return CrabkaBatchReader(SourceOptions.parse(given, streaming=False), ("offset",), ("Offset",))


@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        ("offset > 50", range(51, 60)),
        # After the rows of the plan, which begins where an index has an entry.
        ("timestamp >= '2023-11-14 22:13:20.055'", range(55, 60)),
        ("partition = 7", range(0)),
    ],
)
def test_the_rows_that_are_wanted_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, offsets: range
) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    made = reader(write_tier(two_segments(), tmp_path), where=where)
    copy = sent(made)
    batches = [batch for partition in made.partitions() for batch in copy.read(partition)]
    assert {tuple(batch.schema.names) for batch in batches} <= {("Offset",)}
    assert [offset for batch in batches for offset in batch.column("Offset").to_pylist()] == list(offsets)


def test_spark_has_no_filters_to_push() -> None:
    # What Spark keeps of an answer to them would be used for other queries on the same frame.
    assert CrabkaBatchReader.pushFilters is pyspark_source.DataSourceReader.pushFilters


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
