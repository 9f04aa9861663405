from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.spark.errors import DataLossError
from crabka.spark.lake.syncing import planner_source
from crabka.spark.lake.syncing.planner_source import PlannerSource
from crabka.spark.lake.syncing.topic_sync import TopicEnds, TopicInspection
from crabka.spark.lake.values.rows import READ_COLUMNS
from crabka.spark.plan.history.divergence import LogCutError, ReadPosition
from tests.support.tiers.planted import PlantedTier, batches, two_segments
from tests.support.tiers.stores import write_tier

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
    with pytest.raises(ConfigError, match=f"{name} is not allowed here"):
        PlannerSource({**CLUSTER, name: "offset > 5"})


def test_topics_and_their_ends_are_known_without_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    uri = write_tier(two_segments(), tmp_path)
    source = PlannerSource({"tier.uri": uri, "tier.metadata": "listing"})
    plan = source.plan("orders", {})
    monkeypatch.setattr(planner_source, "plan_offsets", None)
    assert (source.topics("ord.*"), source.topics("ord")) == (["orders"], [])
    assert source.ends("orders") == TopicEnds(plan.topic_ids["orders"], {0: 60})


def test_a_wrong_option_is_reported() -> None:
    with pytest.raises(ConfigError, match="tier"):
        _ = PlannerSource({**CLUSTER, "tier.url": "x"}).reader


def test_a_table_follows_one_history_of_the_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))

    def source_of(tier: PlantedTier, place: str) -> PlannerSource:
        return PlannerSource({"tier.uri": write_tier(tier, tmp_path / place), "tier.metadata": "listing"})

    source = source_of(two_segments(), "old")
    plan = source.plan("orders", {})
    found = source.inspect(plan, {}, {0: [29, 59]})
    assert [(each.base_offset, each.last_offset) for each in found.witnesses[0]] == [(25, 29), (55, 59)]
    positions = {0: ReadPosition(60, tuple(found.witnesses[0]))}
    assert source.inspect(plan, positions, {}) == TopicInspection({})
    assert source.divergences("orders", positions) == (plan.topic_ids["orders"], [])
    anew = PlantedTier(first_id=50)
    anew.add(batches(0, 6) + batches(30, 8, value=b"other"), [(0, 0)])
    source = source_of(anew, "new")
    with pytest.raises(LogCutError, match="agree before offset 30"):
        source.inspect(source.plan("orders", positions), positions, {})
    caplog.clear()
    assert [each.rewind_offset for each in source.divergences("orders", positions)[1]] == [30]
    assert caplog.messages == []
    # What a table is ahead of the tier may come yet, but is not passed over.
    with pytest.raises(DataLossError, match="the tier ends at offset 70 of orders-0, before offset 99"):
        source.plan("orders", {0: ReadPosition(99)})
