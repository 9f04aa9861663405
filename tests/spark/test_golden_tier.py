"""Tiers that Apache Kafka wrote, read without any broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabka.spark import explain
from tests.support.recorded.files import GOLDEN
from tests.support.recorded.rows import golden_rows
from tests.support.spark.rows import load, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINGLE = {"tier.uri": f"file://{GOLDEN / 'single' / 'tier'}", "tier.metadata": "listing", "includeHeaders": "true"}


def test_rows_are_those_that_kafka_reads(spark: SparkSession) -> None:
    assert rows_of(load(spark, SINGLE | {"subscribe": "tiered"})) == golden_rows("single", "tiered")


def test_aborted_transactions_are_left_out_of_committed_rows(spark: SparkSession) -> None:
    options = SINGLE | {"subscribe": "tiered-txn", "kafka.isolation.level": "read_committed"}
    assert rows_of(load(spark, options)) == golden_rows("single", "tiered-txn", committed=True)


def test_segments_of_several_leader_epochs_are_one_history(spark: SparkSession) -> None:
    options = SINGLE | {"tier.uri": f"file://{GOLDEN / 'overlap' / 'tier'}", "subscribePattern": "tiered-o.*"}
    expected = golden_rows("overlap", "tiered-overlap")
    found = rows_of(load(spark, options))
    assert found == expected[: len(found)]
    assert len(found) > 150


def test_a_schema_chooses_columns_and_conditions_prune(spark: SparkSession) -> None:
    frame = (
        spark.read.format("crabka")
        .options(**SINGLE, subscribe="tiered", where="partition = 1 and offset >= 100 and offset < 110")
        .schema("offset bigint, Partition int")
        .load()
    )
    assert frame.columns == ["offset", "Partition"]
    assert sorted(tuple(row) for row in frame.collect()) == [(offset, 1) for offset in range(100, 110)]


def test_bounds_of_time_keep_all_rows_that_pass(spark: SparkSession) -> None:
    times = sorted(row[5] for row in golden_rows("single", "tiered"))
    low, high = times[-90], times[-30]
    where = f"timestamp >= '{low.isoformat()}' and timestamp < '{high.isoformat()}'"
    frame = load(spark, SINGLE | {"subscribe": "tiered", "maxRecordsPerPartition": "20", "where": where})
    assert frame.count() == sum(low <= time < high for time in times)


def test_explain_shows_what_is_pruned(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    options = SINGLE | {"subscribe": "tiered"}
    explain(load(spark, options | {"where": "partition = 1 and offset >= 200"}))
    found = capsys.readouterr().out
    assert "pruned      0" not in found
    assert "tier        " in found
    explain(load(spark, options | {"where": "timestamp > '2100-01-01'"}).where("offset > 5"))
    assert "tier        0 segments" in capsys.readouterr().out


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_queries_on_one_frame_do_not_disturb_each_other(spark: SparkSession, pushdown: str) -> None:
    # Spark keeps what a Python source answers to pushed filters with the frame, for whatever is asked of it next.
    name = "spark.sql.python.filterPushdown.enabled"
    before = str(spark.conf.get(name))
    spark.conf.set(name, pushdown)
    try:
        frame = load(spark, SINGLE | {"subscribe": "tiered"})
        parts = [frame.where(f"partition = {partition}") for partition in (0, 1)]
        assert [part.count() for part in parts] == [360, 240]
        assert frame.count() == parts[0].union(parts[1]).count() == 600
    finally:
        spark.conf.set(name, before)


def test_the_last_line_of_an_error_is_one_clear_sentence(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="the tier has no topic nothing") as caught:
        load(spark, SINGLE | {"subscribe": "nothing"}).count()
    lines = [line for line in str(caught.value).splitlines() if line.strip() and "SQLSTATE" not in line]
    assert lines[-1].endswith("the tier has no topic nothing")


def test_an_unknown_option_names_the_nearest(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        load(spark, SINGLE | {"subscribe": "tiered", "startingOffset": "earliest"}).count()
