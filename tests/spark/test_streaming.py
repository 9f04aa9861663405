"""Streaming queries: limits, restarts, and checkpoints that both sources share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabka.clients import SyncAdmin, SyncProducer
from crabka.ids import TopicPartition
from tests.support.scale import soaking
from tests.support.spark.topics import (
    CLUSTERS,
    Place,
    create_tiered_topic,
    create_topic,
    tiered_cluster,
    wait_for_tier,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESTARTS = 20 if soaking() else 3


@pytest.fixture(scope="module", params=CLUSTERS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("stream")
    with tiered_cluster(request.param, directory) as running:
        yield running


def produce(place: Place, topic: str, count: int, partition: int = 0) -> None:
    with SyncProducer(place.bootstrap) as producer:
        for start in range(0, count, 20):
            records = [(None, b"%d" % number * 20) for number in range(start, min(start + 20, count))]
            producer.send_many(topic, records, partition=partition)


def run_to_end(spark: SparkSession, place: Place, directory: Path, source: str = "crabka", **options: str) -> list[Any]:
    """Run a query with what there is now, into files, and return its progress."""
    named = {key.replace("__", "."): value for key, value in options.items()}
    if source == "crabka":
        named |= place.tier_options
    frame = (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", place.bootstrap)
        .option("startingOffsets", "earliest")
        .options(**named)
        .load()
        .select("topic", "partition", "offset")
    )
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    if (failure := query.exception()) is not None:
        raise failure
    return [json.loads(progress.json) for progress in query.recentProgress]


def offsets_in(spark: SparkSession, directory: Path, topic: str, partition: int = 0) -> list[int]:
    rows = spark.read.parquet(str(directory / "out")).where(f"topic = '{topic}' and partition = {partition}").collect()
    return sorted(row.offset for row in rows)


def test_restarts_read_every_record_once_while_the_tier_moves(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    create_tiered_topic(place, "moving", partitions=1)
    total = 0
    for turn in range(RESTARTS):
        produce(place, "moving", 60)
        total += 60
        if turn:
            wait_for_tier(place, "moving", partitions=1)
        run_to_end(spark, place, tmp_path, subscribe="moving", maxOffsetsPerTrigger="45", commitGroup="watchers")
    assert offsets_in(spark, tmp_path, "moving") == list(range(total))
    with SyncAdmin(place.bootstrap) as admin:
        # The last commit may be missing: Spark reports a batch when the next one begins.
        assert admin.groups.list_offsets("watchers")[TopicPartition("moving", 0)].offset > 0


@pytest.mark.usefixtures("stock")
def test_a_checkpoint_goes_from_one_source_to_the_other_and_back(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    create_topic(place, "shared", partitions=2)
    total = 0
    for source in ("kafka", "crabka", "kafka", "crabka"):
        produce(place, "shared", 30, partition=0)
        produce(place, "shared", 30, partition=1)
        total += 30
        run_to_end(spark, place, tmp_path, source, subscribe="shared")
    for partition in (0, 1):
        assert offsets_in(spark, tmp_path, "shared", partition) == list(range(total))


def test_new_partitions_are_read_from_their_first_record(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    create_topic(place, "growing", partitions=1)
    produce(place, "growing", 10)
    run_to_end(spark, place, tmp_path, subscribe="growing")
    with SyncAdmin(place.bootstrap) as admin:
        admin.create_partitions({"growing": 2})
    produce(place, "growing", 15, partition=1)
    run_to_end(spark, place, tmp_path, subscribe="growing")
    assert offsets_in(spark, tmp_path, "growing") == list(range(10))
    assert offsets_in(spark, tmp_path, "growing", 1) == list(range(15))


def test_a_query_from_the_end_that_stops_before_its_first_batch_is_done_loses_nothing(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    create_topic(place, "late", partitions=1)
    produce(place, "late", 10)
    run_to_end(spark, place, tmp_path, subscribe="late", startingOffsets="latest")
    offsets_log = sorted(path.name for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    assert offsets_log == ["0"]
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    produce(place, "late", 7)
    run_to_end(spark, place, tmp_path, subscribe="late", startingOffsets="latest")
    assert offsets_in(spark, tmp_path, "late") == list(range(10, 17))
