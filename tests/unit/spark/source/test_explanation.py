from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.proto import Plan, Relation

from crabka.errors import ConfigError
from crabka.spark.plan.ranges import PlanReport, ReadPlan
from crabka.spark.source.explanation import describe_plan, explain, only_read, reads_of_connect_frame, reads_of_frame
from tests.support.tiers.planted import two_segments
from tests.support.tiers.stores import write_tier


def test_a_plan_is_reported_in_few_lines() -> None:
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


def test_options_are_planned_and_reported(
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


RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


class Sequence:
    """As much of a Scala sequence as is looked at."""

    def __init__(self, *items: object) -> None:
        self._items = items

    def size(self) -> int:
        return len(self._items)

    def apply(self, index: int) -> object:
        return self._items[index]


class Leaf:
    """A leaf of a plan with options, or without any."""

    def __init__(self, options: dict[str, str] | None) -> None:
        self._options = options

    def getClass(self) -> Leaf:  # noqa: N802 - Java's name
        return self

    def getName(self) -> str:  # noqa: N802 - Java's name
        return "x.LocalRelation" if self._options is None else RELATION

    def options(self) -> Leaf:
        return self

    def asCaseSensitiveMap(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        assert self._options is not None
        return self._options


class Frame:
    """A frame with these leaves."""

    def __init__(self, *leaves: Leaf) -> None:
        self._leaves = leaves

    @property
    def _jdf(self) -> Frame:
        return self

    def queryExecution(self) -> Frame:  # noqa: N802 - Spark's name
        return self

    def analyzed(self) -> Frame:
        return self

    def collectLeaves(self) -> Sequence:  # noqa: N802 - Spark's name
        return Sequence(*self._leaves)


def test_the_options_of_every_read_are_found() -> None:
    frame = Frame(Leaf(None), Leaf({"subscribe": "t", "Tier.Uri": "x"}))
    assert reads_of_frame(frame) == [{}, {"subscribe": "t", "tier.uri": "x"}]  # type: ignore[arg-type]


def read(options: Mapping[str, str]) -> Relation:
    relation = Relation()
    relation.read.data_source.format = "crabka"
    relation.read.data_source.options.update(options)
    return relation


def test_reads_are_found_below_whatever_is_made_of_them() -> None:
    plan = Plan()
    plan.root.filter.input.join.left.CopyFrom(read({"subscribe": "t", "Tier.Uri": "x"}))
    plan.root.filter.input.join.right.set_op.left_input.CopyFrom(read({"path": "y"}))
    plan.root.filter.condition.expression_string.expression = "offset > 5"
    asked: list[Any] = []

    def to_proto(client: object) -> Plan:
        asked.append(client)
        return plan

    frame: Any = SimpleNamespace(
        _plan=SimpleNamespace(to_proto=to_proto), sparkSession=SimpleNamespace(client="the client")
    )
    assert reads_of_connect_frame(frame) == [{"subscribe": "t", "tier.uri": "x"}, {"path": "y"}]
    assert asked == ["the client"]
