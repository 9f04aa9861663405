"""Commands that need no Spark, on tables that a sync without Spark made; tests/spark runs `sync`."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import TopicSync
from tests.support.spark.lake_reader import table_places
from tests.support.spark.lake_tables import lake_of
from tests.support.spark.lake_topic import InlineRunner, ListTopic
from tests.unit.cli.conftest import RunCommand


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A Parquet table of two small files."""
    lake, topic = lake_of(tmp_path, "parquet"), ListTopic([[b"v"] * 3])
    for _ in range(2):
        TopicSync(lake, topic, InlineRunner(), SyncSettings(), topic="orders").run_round()
        topic.values[0] += [b"w"] * 2
    return lake.root


def test_status_reports_what_the_table_knows(crabka: RunCommand, root: str) -> None:
    asked = ("lake", "status", "orders", "--to", root, "--format", "parquet", "--offline")
    [state] = crabka(*asked, "--json").json
    assert (state["rows"], state["files"], state["lag"]) == (5, 2, None)
    assert state["partitions"] == [{"partition": 0, "committed": 5, "end": None, "lag": None}]
    assert [commit["operation"] for commit in state["commits"]] == ["sync", "sync", "create"]
    lines = crabka(*asked).out.splitlines()
    assert lines[0].split("\t")[:2] == ["table", "topic"]
    assert "orders\t0\t5\t\t" in lines


def test_small_files_are_merged_and_the_old_ones_removed(crabka: RunCommand, root: str) -> None:
    place = ("--to", root, "--format", "parquet", "--json")
    assert crabka("lake", "compact", "orders", *place).json == [
        {"table": "orders", "files_removed": 2, "files_added": 1}
    ]
    assert crabka("lake", "vacuum", "orders", *place).json[0]["files_removed"] == 0
    assert len(list((Path(root) / "orders").glob("*.parquet"))) == 3
    assert table_places(Path(root), "orders", "parquet") == [(0, offset) for offset in range(5)]


def test_a_grace_that_may_take_files_from_others_has_to_be_confirmed(crabka: RunCommand, root: str) -> None:
    place = ("--to", root, "--format", "parquet", "--json")
    crabka("lake", "compact", "orders", *place)
    refused = crabka("lake", "vacuum", "orders", *place, "--grace", "0.5")
    assert (refused.code, "--allow-short-grace" in refused.err) == (2, True)
    assert len(list((Path(root) / "orders").glob("*.parquet"))) == 3
    assert crabka("lake", "vacuum", "orders", *place, "--grace", "1").json[0]["files_removed"] == 0
    assert crabka("lake", "vacuum", "orders", *place, "--grace", "0.5", "--allow-short-grace").code == 0


@pytest.mark.parametrize("command", ["status", "rewind", "compact", "vacuum"])
def test_a_table_that_is_not_there_is_one_line(crabka: RunCommand, root: str, command: str) -> None:
    offline = ("--offline",) if command == "status" else ()
    result = crabka("lake", command, "nothing", "--to", root, "--format", "parquet", *offline)
    assert result.code in (1, 2)
    assert result.err.count("\n") == 1
    assert "no parquet table nothing" in result.err


def test_a_format_that_is_none_is_bad_input(crabka: RunCommand, root: str) -> None:
    result = crabka("lake", "compact", "orders", "--to", root, "--format", "csv")
    assert (result.code, "not a table format" in result.err) == (2, True)
