from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pyspark.sql.connect.proto import Plan, Relation

from crabka.spark.source.connect_plan import has_filters, plan_of_connect_frame, reads_in_plan


def read(options: Mapping[str, str]) -> Relation:
    relation = Relation()
    relation.read.data_source.format = "crabka"
    relation.read.data_source.options.update(options)
    return relation


def test_reads_are_found_below_whatever_is_made_of_them() -> None:
    plan = Plan()
    plan.root.join.left.CopyFrom(read({"subscribe": "t", "Tier.Uri": "x"}))
    plan.root.join.right.set_op.left_input.CopyFrom(read({"path": "y"}))
    assert reads_in_plan(plan) == [{"subscribe": "t", "tier.uri": "x"}, {"path": "y"}]
    assert not has_filters(plan)


def test_a_filter_is_seen() -> None:
    plan = Plan()
    plan.root.filter.input.CopyFrom(read({"subscribe": "t"}))
    plan.root.filter.condition.expression_string.expression = "offset > 5"
    assert has_filters(plan)
    assert reads_in_plan(plan) == [{"subscribe": "t"}]


def test_the_plan_is_the_one_that_the_client_would_send() -> None:
    asked: list[Any] = []
    plan = Plan(root=read({"subscribe": "t"}))

    def to_proto(client: object) -> Plan:
        asked.append(client)
        return plan

    frame: Any = SimpleNamespace(
        _plan=SimpleNamespace(to_proto=to_proto), sparkSession=SimpleNamespace(client="the client")
    )
    assert plan_of_connect_frame(frame) is plan
    assert asked == ["the client"]
