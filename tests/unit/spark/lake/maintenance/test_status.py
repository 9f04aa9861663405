from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.status import table_status
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import TopicSync
from crabka.spark.lake.values.json_values import JsonValues
from crabka.spark.plan.history.divergence import ReadPosition
from crabka.spark.plan.ranges import ReadPlan
from tests.support.spark.lake_tables import TOPIC_ID, lake_of, now_ms
from tests.support.spark.lake_topic import InlineRunner, ListTopic


def synced(tmp_path: Path, topic: ListTopic) -> Lake:
    lake = lake_of(tmp_path, "parquet")
    settings = SyncSettings(decoder=JsonValues((), infers=True))
    TopicSync(lake, topic, InlineRunner(), settings, topic="orders").run_round()
    return lake


def test_a_status_has_the_lag(tmp_path: Path) -> None:
    topic = ListTopic([[b'{"a": 1}'] * 5 + [b"{"], [b'{"a": 1}']])
    lake = synced(tmp_path, topic)
    topic.values[1] += [b"{}"] * 3
    status = table_status(lake, "orders", topic, now_ms() + 1000)
    assert (status.topic, status.topic_id) == ("orders", TOPIC_ID)
    assert (status.rows, status.dead_rows, status.files, status.lag) == (6, 1, 2, 3)
    assert [(each.committed, each.end, each.lag) for each in status.partitions] == [(6, 6, 0), (1, 4, 3)]
    assert status.age_ms is not None
    assert status.age_ms >= 1000
    assert [commit.operation for commit in status.commits] == ["sync", "evolve", "create"]


def test_a_table_alone_knows_no_lag(tmp_path: Path) -> None:
    status = table_status(synced(tmp_path, ListTopic([[b"{}"]])), "orders", None, now_ms())
    assert status.lag is None
    assert [(each.committed, each.end) for each in status.partitions] == [(1, None)]


def test_a_topic_that_was_created_anew_is_reported(tmp_path: Path) -> None:
    lake = synced(tmp_path, ListTopic([[b"{}"]]))
    with pytest.raises(LakeError, match="created anew"):
        table_status(lake, "orders", ListTopic([[b"{}"]], topic_id="AnotherTopicAltogether"), now_ms())


def test_a_topic_is_asked_for_its_ends_only(tmp_path: Path) -> None:
    class _EndsOnly(ListTopic):
        def plan(self, topic: str, positions: Mapping[int, ReadPosition]) -> ReadPlan:
            raise AssertionError((topic, positions))

    lake = synced(tmp_path, ListTopic([[b"{}"]]))
    assert table_status(lake, "orders", _EndsOnly([[b"{}"] * 3]), now_ms()).lag == 2


def test_dead_letters_know_no_lag(tmp_path: Path) -> None:
    topic = ListTopic([[b"{}", b"{", b"{}"]])
    status = table_status(synced(tmp_path, topic), "orders_dlq", topic, now_ms())
    assert (status.rows, status.lag) == (1, None)


def test_a_table_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no parquet table"):
        table_status(lake_of(tmp_path, "parquet"), "orders", None, now_ms())
