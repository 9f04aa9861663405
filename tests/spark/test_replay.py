"""A replay by Spark tasks, of a tier and of rows of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabka.cli.main import execute
from crabka.clients import NewTopic, SyncAdmin
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.spark.jobs.replay import ReplayedPartition, replay_table
from crabka.spark.jobs.replay_writer import ReplayTarget, SourceIdentity
from tests.support.recorded.files import GOLDEN
from tests.support.spark.rows import Rows, load, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIER = {"tier.uri": f"file://{GOLDEN}/single/tier", "tier.metadata": "listing", "subscribe": "tiered"}
COPY = {"kafka.isolation.level": "read_committed", "includeHeaders": "true"}


def contents(rows: Rows) -> list[Any]:
    """Return partition, key, value, timestamp and headers; offsets differ, since transactions have markers."""
    return [(row[3], row[0], row[1], row[5], row[7]) for row in rows]


@pytest.mark.timeout(600)
def test_tier_and_table_are_replayed_as_they_are(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = load(spark, TIER | COPY)
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        bootstrap = broker.bootstrap_servers
        with SyncAdmin(bootstrap) as admin:
            admin.create_topics([NewTopic("copy", 2, 1), NewTopic("again", 2, 1)])
        place = ["--tier", TIER["tier.uri"], "--option", "tier.metadata=listing", "--target-bootstrap", bootstrap]
        assert execute(["replay", "tiered", "--to", "copy", *place, "--json"]) == 0
        done = json.loads(capsys.readouterr().out)
        assert [(each["partition"], each["records"]) for each in done] == [(0, 360), (1, 240)]
        target = ReplayTarget(bootstrap=bootstrap, topic="again", name="table", transaction_records=100)
        identity = SourceIdentity("tiered", "id")
        written = replay_table(source, target, identity)
        assert written == [ReplayedPartition(0, 360, 360), ReplayedPartition(1, 240, 240)]
        assert [each.records for each in replay_table(source, target, identity)] == [0, 0]
        with pytest.raises(ConfigError, match="no column key"):
            replay_table(source.drop("key"), target, identity)
        expected = contents(rows_of(source))
        for topic in ("copy", "again"):
            read = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "read.mode": "broker"}
            assert contents(rows_of(load(spark, read | COPY))) == expected


@pytest.mark.timeout(600)
def test_table_of_raw_values_is_replayed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = contents(rows_of(load(spark, TIER | COPY | {"subscribe": "tiered-txn"})))
    lake = ["--format", "delta"]
    place = ["--tier", TIER["tier.uri"], "--option", "tier.metadata=listing"]
    assert execute(["lake", "sync", "tiered-txn", "--to", str(tmp_path / "lake"), *lake, *place]) == 0
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        bootstrap = broker.bootstrap_servers
        with SyncAdmin(bootstrap) as admin:
            admin.create_topics([NewTopic("copy", 1, 1)])
        capsys.readouterr()
        table = ["--table", str(tmp_path / "lake"), *lake, "--target-bootstrap", bootstrap, "--json"]
        assert execute(["replay", "tiered-txn", "--to", "copy", *table]) == 0
        (done,) = json.loads(capsys.readouterr().out)
        assert done["records"] == len(expected)
        read = {"kafka.bootstrap.servers": bootstrap, "subscribe": "copy", "read.mode": "broker"}
        assert contents(rows_of(load(spark, read | COPY))) == expected
