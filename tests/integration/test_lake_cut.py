"""Tables of topics whose logs are cut and filled again: the sync stops, and after a rewind the table is the topic."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.embedded import Broker
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.rewinding import rewind_table
from crabka.spark.lake.syncing.planner_source import PlannerSource
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import TopicSync
from crabka.spark.plan.history.divergence import LogCutError
from tests.support.nodes.process import wait_until
from tests.support.spark.lake_reader import table_rows
from tests.support.spark.lake_tables import lake_of
from tests.support.spark.lake_topic import InlineRunner

pytestmark = [
    pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections"),
    pytest.mark.usefixtures("_plan_cache"),
]

FORMAT = "parquet"


@pytest.fixture
def _plan_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))


def produce(broker: Broker, what: str, count: int) -> None:
    with SyncProducer(broker.bootstrap_servers) as producer:
        for start in range(0, count, 50):
            values = [b"%s-%d" % (what.encode(), at) for at in range(start, min(start + 50, count))]
            producer.send_many("orders", [(None, value) for value in values], partition=0)


def source_of(broker: Broker, **more: str) -> PlannerSource:
    cluster = {"kafka.bootstrap.servers": broker.bootstrap_servers, "fetchOffset.retryIntervalMs": "1"}
    return PlannerSource(cluster | more)


def bring(lake: Lake, source: PlannerSource, table: str = "orders") -> None:
    sync = TopicSync(lake, source, InlineRunner(), SyncSettings(), topic="orders", table_name=table)
    while sync.run_round() is not None:
        pass


def rows(lake: Lake, table: str = "orders") -> list[tuple[int, bytes]]:
    return [(row["kafka_offset"], row["value"]) for row in table_rows(Path(lake.root), table, FORMAT)]


def restore_partition(data: Path, copy: Path) -> None:
    shutil.rmtree(data / "orders-0")
    shutil.copytree(copy / "orders-0", data / "orders-0")


def restore_all(data: Path, copy: Path) -> None:
    shutil.rmtree(data)
    shutil.copytree(copy, data)


@pytest.mark.parametrize("restore", [restore_partition, restore_all])
def test_an_older_copy_is_noticed_however_far_it_was_filled_again(
    tmp_path: Path, restore: Callable[[Path, Path], None]
) -> None:
    data, copy, lake = tmp_path / "data", tmp_path / "copy", lake_of(tmp_path, FORMAT)
    with Broker(data_dir=str(data)) as broker:
        with SyncAdmin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 1)])
        produce(broker, "first", 400)
        bring(lake, source_of(broker))
    shutil.copytree(data, copy)
    with Broker(data_dir=str(data)) as broker:
        produce(broker, "lost", 600)
        bring(lake, source_of(broker))
    restore(data, copy)
    with Broker(data_dir=str(data)) as broker:
        # While the log is shorter than the table.
        with pytest.raises(LogCutError, match="agree before offset 400 and differ from offset 400 on"):
            bring(lake, source_of(broker))
        produce(broker, "new", 900)
        # And when it is longer.
        with pytest.raises(LogCutError, match="agree before offset 400 and differ from offset"):
            bring(lake, source_of(broker))
        assert len(rows(lake)) == 1000
        (rewound,) = rewind_table(lake, "orders", source_of(broker))
        assert (rewound.position, rewound.rewound_to) == (1000, 400)
        bring(lake, source_of(broker))
        bring(lake, source_of(broker), "afresh")
    assert rows(lake) == rows(lake, "afresh")
    assert [value.partition(b"-")[0] for _, value in rows(lake)] == [b"first"] * 400 + [b"new"] * 900


def test_a_cut_is_passed_over_when_asked(tmp_path: Path) -> None:
    data, copy, lake = tmp_path / "data", tmp_path / "copy", lake_of(tmp_path, FORMAT)
    with Broker(data_dir=str(data)) as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("orders", 1)])
    shutil.copytree(data, copy)
    with Broker(data_dir=str(data)) as broker:
        produce(broker, "lost", 60)
        bring(lake, source_of(broker))
    restore_all(data, copy)
    with Broker(data_dir=str(data)) as broker:
        for count in (30, 70):
            produce(broker, "new", count)
            bring(lake, source_of(broker, failOnDataLoss="false"))
        bring(lake, source_of(broker))
    assert [value.partition(b"-")[0] for _, value in rows(lake)] == [b"lost"] * 60 + [b"new"] * 40


def test_lost_local_segments_of_a_tiered_partition_are_noticed(tmp_path: Path) -> None:
    """The broker begins after the tier, or anew: either way the table has what the topic has, or the sync stops."""
    data, lake = tmp_path / "data", lake_of(tmp_path, FORMAT)
    tier = tmp_path / "tier"
    with Broker(data_dir=str(data), tier=tier) as broker:
        with SyncAdmin(broker.bootstrap_servers) as admin:
            configs = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
            configs |= {"segment.ms": "100"}
            admin.create_topics([NewTopic("orders", 1, configs=configs)])
        produce(broker, "first", 200)

        def is_tiered() -> bool:
            produce(broker, "more", 1)
            return any(tier.rglob("*.log"))

        wait_until(is_tiered, "a segment is in the tier")
        bring(lake, source_of(broker))
    for path in (data / "orders-0").iterdir():
        if path.is_file() and path.name != "partition.metadata":
            path.unlink()
    with Broker(data_dir=str(data), tier=tier) as broker:
        produce(broker, "new", 900)
        try:
            bring(lake, source_of(broker))
        except LogCutError:
            rewind_table(lake, "orders", source_of(broker))
            bring(lake, source_of(broker))
        bring(lake, source_of(broker), "afresh")
    assert rows(lake) == rows(lake, "afresh")
    assert rows(lake)[-1][1] == b"new-899"
