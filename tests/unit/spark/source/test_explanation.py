from __future__ import annotations

from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.spark.plan.ranges import PlanReport, ReadPlan
from crabka.spark.source.explanation import describe_plan, explain, only_read
from tests.support.planted_tier import two_segments
from tests.support.tier_stores import write_tier


def test_a_plan_is_told_in_few_lines() -> None:
    report = PlanReport(3, 5 << 20, 2, ("segment 7: it has no .log",), 1, 10)
    plan = ReadPlan((), {("t", 0): (0, 10), ("t", 1): (5, 9)}, {"t": None}, report)
    assert describe_plan(plan).splitlines() == [
        "partitions  2, 14 offsets",
        "tier        3 segments, 5.0 MiB",
        "brokers     1 ranges",
        "pruned      2 segments, 10 bytes",
        "splits      0",
        "ignored     segment 7: it has no .log",
    ]


def test_options_are_planned_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    uri = write_tier(two_segments(), tmp_path)
    explain({"subscribe": "orders", "tier.uri": uri, "tier.metadata": "listing"})
    assert "tier        2 segments" in capsys.readouterr().out


def test_only_one_read_of_ours_can_be_explained() -> None:
    ours = {"subscribe": "t", "tier.uri": "x"}
    assert only_read([{}, ours, {"path": "y"}]) == ours
    with pytest.raises(ConfigError, match="reads the source 2 times"):
        only_read([ours, ours])
    with pytest.raises(ConfigError, match="reads the source 0 times"):
        only_read([{"path": "y"}])
