from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pyspark.sql.connect.proto import Plan, Relation

from crabka.spark.source.connect_plan import reads_of_connect_frame


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
