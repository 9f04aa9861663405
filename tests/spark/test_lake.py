"""Topics as tables, from a broker with a tier through Spark, read back without the libraries that wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as Position

from crabka.cli.app import main
from crabka.clients import SyncAdmin
from crabka.spark.lake import Lake, LakeError, LakeSync, SyncRequest, SyncSettings, files, value_decoder
from crabka.spark.lake.maintenance.compaction import compact_once
from crabka.spark.lake.syncing.planner_source import PlannerSource
from crabka.spark.lake.syncing.spark_runner import SparkRunner
from tests.support.spark.lake_reader import table_places, table_rows
from tests.support.spark.lake_tables import ALL_FORMATS, lake_of
from tests.support.spark.topics import Place, create_tiered_topic, create_topic, fill, tiered_broker, wait_for_tier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with tiered_broker(tmp_path_factory.mktemp("lake")) as running:
        create_tiered_topic(running, "mixed")
        fill(running, "mixed", 1)
        wait_for_tier(running, "mixed")
        yield running


def consumed(place: Place, topic: str, partitions: int = 2) -> list[dict[str, Any]]:
    """What a consumer of committed records sees, in the order of partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": place.bootstrap,
            "group.id": "lake-tests",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Position(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    rows, ended = [], 0
    while ended < partitions:
        message = consumer.poll(120)
        assert message is not None
        if message.error() is not None:
            ended += 1
            continue
        pairs: Any = message.headers() or []
        headers = [{"key": key, "value": value} for key, value in pairs]
        rows.append(
            {
                "kafka_key": message.key(),
                "kafka_topic": topic,
                "kafka_partition": message.partition(),
                "kafka_offset": message.offset(),
                "timestamp_ms": message.timestamp()[1],
                "kafka_headers": headers or None,
                "value": message.value(),
            }
        )
    consumer.close()
    return sorted(rows, key=lambda row: (row["kafka_partition"], row["kafka_offset"]))


def stored(lake: Lake, name: str) -> list[dict[str, Any]]:
    rows = table_rows(Path(lake.root), name, lake.table_format)
    for row in rows:
        row["timestamp_ms"] = round(row.pop("kafka_timestamp").timestamp() * 1000)
        for other in ("kafka_topic_id", "kafka_timestamp_type", "kafka_date"):
            row.pop(other, None)
    return rows


def job(spark: SparkSession, place: Place, lake: Lake, topic: str, settings: SyncSettings | None = None) -> LakeSync:
    options = {"kafka.bootstrap.servers": place.bootstrap}
    request = SyncRequest(topics=(topic,), settings=settings or SyncSettings())
    return LakeSync(lake, PlannerSource(options), SparkRunner(spark), request)


@pytest.mark.parametrize("table_format", ALL_FORMATS)
def test_a_table_holds_what_a_consumer_sees(
    spark: SparkSession, place: Place, tmp_path: Path, table_format: str
) -> None:
    lake = lake_of(tmp_path, table_format)
    small_rounds = SyncSettings(round_bytes=20_000, target_bytes=5_000, partition_by="date")
    job(spark, place, lake, "mixed", small_rounds).run_once()
    assert stored(lake, "mixed") == consumed(place, "mixed")
    fill(place, "mixed", ALL_FORMATS.index(table_format) + 2, batches=4)
    again = job(spark, place, lake, "mixed", SyncSettings(partition_by="date"))
    again.run_once()
    assert again.summaries[0].rows > 0
    assert stored(lake, "mixed") == consumed(place, "mixed")
    idle = job(spark, place, lake, "mixed", SyncSettings(partition_by="date"))
    idle.run_once()
    assert idle.summaries[0].rounds == 0


def test_the_command_brings_json_into_columns_and_keeps_tables(
    spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(place, "events")
    producer = Producer({"bootstrap.servers": place.bootstrap})
    for number in range(100):
        value = b"{broken" if number % 10 == 9 else json.dumps({"id": number, "kind": f"k{number % 3}"}).encode()
        producer.produce("events", value=value, partition=number % 2)
    producer.flush(120)
    common = ["--to", str(tmp_path), "--format", "parquet"]
    cluster = ["--bootstrap", place.bootstrap]

    def run(*arguments: str) -> Any:
        assert main(["lake", *arguments, *common, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    [summary] = run("sync", "--pattern", "ev.*", "--value", "json", *cluster)
    assert (summary["rows"], summary["dead_rows"], summary["rounds"]) == (90, 10, 1)
    assert run("sync", "events", "--value", "json", *cluster)[0]["rounds"] == 0
    [state] = run("status", "events", *cluster)
    assert (state["rows"], state["dead_rows"], state["lag"]) == (90, 10, 0)
    assert [partition["committed"] for partition in state["partitions"]] == [50, 50]
    assert run("compact", "events")[0]["files_removed"] == state["files"]
    assert run("vacuum", "events", "--grace", "0", "--allow-short-grace")[0]["table"] == "events"
    assert len(table_places(tmp_path, "events_dlq", "parquet")) == 10
    frame = spark.read.parquet(*files(str(tmp_path / "events")))
    assert sorted(row.id for row in frame.collect()) == [number for number in range(100) if number % 10 != 9]


@pytest.mark.usefixtures("stock")
def test_sparks_own_delta_reads_the_table_through_its_whole_life(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    create_topic(place, "clicks")
    producer = Producer({"bootstrap.servers": place.bootstrap})
    lake = lake_of(tmp_path, "delta")
    json_by_date = SyncSettings(partition_by="date", decoder=value_decoder("json", None))
    expected: list[dict[str, int | None]] = []

    def grow(**more: int | None) -> None:
        for partition in range(2):
            producer.produce("clicks", value=json.dumps({"id": len(expected), **more}).encode(), partition=partition)
            expected.append({"id": len(expected), "since": None, **more})
        producer.flush(120)
        job(spark, place, lake, "clicks", json_by_date).run_once()

    def check() -> None:
        frame = spark.read.format("delta").load(str(Path(lake.root) / "clicks"))
        rows = [{"since": None} | row.asDict() for row in frame.sort("id").collect()]
        assert [{name: row[name] for name in ("id", "since")} for row in rows] == expected

    grow()
    check()
    grow(since=7)
    check()
    table = lake.open("clicks")
    assert table is not None
    assert compact_once(table, 1 << 30).files_removed == 4
    table.vacuum(0, lake.now_ms())
    check()
    grow(since=8)
    check()


def test_a_topic_that_was_created_anew_stops_the_sync(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    create_topic(place, "reborn", partitions=1)
    producer = Producer({"bootstrap.servers": place.bootstrap})
    for _ in range(5):
        producer.produce("reborn", value=b"old", partition=0)
    producer.flush(120)
    job(spark, place, lake, "reborn").run_once()
    with SyncAdmin(place.bootstrap) as admin:
        admin.delete_topics(["reborn"])
    create_topic(place, "reborn", partitions=1)
    with pytest.raises(LakeError, match="created anew"):
        job(spark, place, lake, "reborn").run_once()
    assert len(table_places(Path(lake.root), "reborn", "parquet")) == 5
