"""A table of a topic of Apache Kafka, whose log is restored from an older copy there, and which is created anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.rewinding import rewind_table
from crabka.spark.lake.syncing.planner_source import PlannerSource
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import TopicSync
from crabka.spark.plan.history.divergence import LogCutError
from tests.support.kafka.oracle import JvmKafka
from tests.support.spark.lake_reader import table_rows
from tests.support.spark.lake_tables import lake_of
from tests.support.spark.lake_topic import InlineRunner

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.usefixtures("jvm"),
    pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections"),
]


def produce(node: JvmKafka, what: bytes, count: int) -> None:
    with SyncProducer(node.bootstrap_servers) as producer:
        for start in range(0, count, 50):
            values = [b"%s-%d" % (what, at) for at in range(start, start + 50)]
            producer.send_many("orders", [(None, value) for value in values], partition=0)


def bring(lake: Lake, node: JvmKafka) -> PlannerSource:
    source = PlannerSource({"kafka.bootstrap.servers": node.bootstrap_servers})
    sync = TopicSync(lake, source, InlineRunner(), SyncSettings(), topic="orders")
    while sync.run_round() is not None:
        pass
    return source


def kinds(lake: Lake) -> list[bytes]:
    """What was produced, row by row."""
    rows = table_rows(Path(lake.root), "orders", lake.table_format)
    assert [row["kafka_offset"] for row in rows] == list(range(len(rows)))
    return [row["value"].partition(b"-")[0] for row in rows]


def test_a_cut_of_the_log_of_apache_kafka_stops_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    lake = lake_of(tmp_path, "parquet")
    node = JvmKafka(tmp_path / "kafka")
    log, copy = node.data_dir / "orders-0", tmp_path / "copy"
    with node:
        with SyncAdmin(node.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 1)])
        produce(node, b"first", 200)
        bring(lake, node)
        shutil.copytree(log, copy)
        produce(node, b"lost", 300)
        source = bring(lake, node)
        assert kinds(lake) == [b"first"] * 200 + [b"lost"] * 300
        # Not a clean stop: the copy is that of a log that was in use, and Kafka recovers it.
        node.kill()
        shutil.rmtree(log)
        shutil.copytree(copy, log)
        node.start()
        # While the log is shorter than the table, and when it is longer.
        for count in (100, 400):
            produce(node, b"new", count)
            with pytest.raises(LogCutError, match="agree before offset 200 and differ from offset"):
                bring(lake, node)
        assert kinds(lake) == [b"first"] * 200 + [b"lost"] * 300
        (rewound,) = rewind_table(lake, "orders", source)
        assert (rewound.position, rewound.rewound_to) == (500, 200)
        bring(lake, node)
        assert kinds(lake) == [b"first"] * 200 + [b"new"] * 500
        with SyncAdmin(node.bootstrap_servers) as admin:
            admin.delete_topics(["orders"])
            admin.create_topics([NewTopic("orders", 1)])
        produce(node, b"other", 800)
        with pytest.raises(LakeError, match="The topic orders was created anew"):
            bring(lake, node)
        assert kinds(lake) == [b"first"] * 200 + [b"new"] * 500
