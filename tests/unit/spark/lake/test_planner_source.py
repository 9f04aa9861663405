from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.spark.lake import planner_source
from crabka.spark.lake.planner_source import PlannerSource
from crabka.spark.lake.rows import READ_COLUMNS
from crabka.spark.lake.topic_sync import TopicEnds
from tests.support.planted_tier import two_segments
from tests.support.tier_stores import write_tier

CLUSTER = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def test_tasks_read_all_columns_and_only_what_is_committed() -> None:
    reader = pickle.loads(pickle.dumps(PlannerSource(CLUSTER).reader))  # noqa: S301 - as it goes to tasks
    assert set(reader.settings.columns) == set(READ_COLUMNS)
    assert reader.settings.options.read_committed
    assert reader.settings.options.include_headers


@pytest.mark.parametrize("name", ["isolation.level", "kafka.isolation.level", "Kafka.Isolation.Level"])
def test_what_is_not_committed_is_read_if_asked(name: str) -> None:
    reader = PlannerSource({**CLUSTER, name: "read_uncommitted"}).reader
    assert not reader.settings.options.read_committed


@pytest.mark.parametrize("name", ["startingOffsets", "startingtimestamp", "endingOffsetsByTimestamp", "where"])
def test_what_would_choose_rows_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} has no place here"):
        PlannerSource({**CLUSTER, name: "offset > 5"})


def test_topics_and_their_ends_are_known_without_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    uri = write_tier(two_segments(), tmp_path)
    source = PlannerSource({"tier.uri": uri, "tier.metadata": "listing"})
    plan = source.plan("orders", {})
    monkeypatch.setattr(planner_source, "plan_offsets", None)
    assert (source.topics("ord.*"), source.topics("ord")) == (["orders"], [])
    assert source.ends("orders") == TopicEnds(plan.topic_ids["orders"], {0: 60})


def test_a_wrong_option_is_told() -> None:
    with pytest.raises(ConfigError, match="tier"):
        _ = PlannerSource({**CLUSTER, "tier.url": "x"}).reader
