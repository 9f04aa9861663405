from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crabka.errors import ConfigError
from crabka.spark.lake.values.avro_schemas import avro_fields, without_foreign_types


def record(*kinds: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(kinds)]}


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        (["null", "long"], pa.int64()),
        (["string", "null"], pa.string()),
        ({"type": "string"}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", tz="UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", tz="UTC")),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "int", "logicalType": "time-millis"}, pa.int32()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "fixed", "name": "F", "size": 4}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5}, pa.decimal128(5, 0)),
        ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.int32())),
        ({"type": "map", "values": "double"}, pa.map_(pa.string(), pa.float64())),
        ({"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]}, pa.struct([("x", pa.int32())])),
    ],
)
def test_types_of_avro_have_types_of_arrow(avro: Any, arrow: pa.DataType) -> None:
    assert avro_fields(record(avro)) == (pa.field("f0", arrow),)


def test_a_named_type_can_be_used_again() -> None:
    point = {"type": "record", "name": "P", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    fields = avro_fields(record(point, "n.P", "P"))
    assert {str(field.type) for field in fields} == {"struct<x: int32>"}


@pytest.mark.parametrize(
    ("outer", "inner", "reference"),
    [
        ({"name": "R", "namespace": "com.x"}, {"name": "E"}, "com.x.E"),
        ({"name": "R", "namespace": "com.x"}, {"name": "E"}, "E"),
        ({"name": "com.x.R"}, {"name": "com.x.E"}, "E"),
        ({"name": "com.x.R", "namespace": "ignored"}, {"name": "E"}, "com.x.E"),
        ({"name": "com.x.R"}, {"name": "E", "namespace": "y"}, "y.E"),
        ({"name": "com.x.R"}, {"name": "E", "namespace": ""}, "E"),
    ],
)
def test_names_are_resolved_as_avro_does(outer: dict[str, str], inner: dict[str, str], reference: str) -> None:
    kind = {"type": "enum", "symbols": ["A"]} | inner
    nested = {"type": "record", "name": "N", "fields": [{"name": "again", "type": ["null", reference]}]}
    schema = record(kind, reference, nested) | outer
    assert [field.type for field in avro_fields(schema)] == [
        pa.string(),
        pa.string(),
        pa.struct([("again", pa.string())]),
    ]


def test_the_namespace_around_a_name_decides_between_types_of_the_same_name() -> None:
    def fixed(space: str) -> dict[str, Any]:
        return {"type": "fixed", "name": "T", "namespace": space, "size": 2}

    def user(name: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": "x", "type": "T"}]}

    text = {"type": "enum", "name": "T", "namespace": "b", "symbols": ["A"]}
    fields = avro_fields(record(text, fixed("a"), user("a.U"), user("b.U")))
    assert [str(field.type) for field in fields[2:]] == ["struct<x: binary>", "struct<x: string>"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("string", "record"),
        ({"type": "array", "items": "int"}, "record"),
        (record(["int", "string"]), "R.f0 .*union"),
        (record("unknown"), "unknown"),
        (record(["null", "R"]), "contains itself"),
        (record(7), "R.f0"),
        (record({"type": "bytes", "logicalType": "decimal", "precision": 50}), "50 digits"),
    ],
)
def test_what_no_column_can_hold_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        avro_fields(schema)


def test_only_logical_types_that_tables_have_stay() -> None:
    time = {"type": "int", "logicalType": "time-millis"}
    date = {"type": "int", "logicalType": "date"}
    assert without_foreign_types(record(time, ["null", time], {"type": "array", "items": time}, date)) == record(
        {"type": "int"}, ["null", {"type": "int"}], {"type": "array", "items": {"type": "int"}}, date
    )
