from __future__ import annotations

import pyarrow as pa
import pytest

from crabka.spark.lake.errors import SchemaConflictError
from crabka.spark.lake.values.schemas import (
    LOG_COLUMNS,
    added_fields,
    conform,
    conform_array,
    dead_letter_schema,
    merge_schemas,
    plain_schema,
    table_schema,
)


def test_a_table_has_the_columns_of_the_log_and_those_of_values() -> None:
    schema = table_schema([pa.field("id", pa.int64())], with_date=True)
    assert schema.names == [*LOG_COLUMNS.names, "kafka_date", "id"]
    assert dead_letter_schema().names == [*LOG_COLUMNS.names, "value", "reason"]


@pytest.mark.parametrize("name", ["kafka_offset", "Kafka_Offset"])
def test_a_field_of_a_value_must_not_hide_a_column_of_the_log(name: str) -> None:
    with pytest.raises(SchemaConflictError, match="kafka_offset"):
        table_schema([pa.field(name, pa.int64())], with_date=False)


def test_new_columns_come_last_and_old_ones_keep_their_types() -> None:
    current = pa.schema([("a", pa.int64()), ("b", pa.float64())])
    merged = merge_schemas(current, pa.schema([("c", pa.string()), ("a", pa.int32()), ("b", pa.float32())]))
    assert merged == pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string())])
    assert added_fields(current, merged) == [pa.field("c", pa.string())]
    assert merge_schemas(merged, current) == merged


def test_structs_grow_wherever_they_are() -> None:
    def nested(*names: str) -> pa.Schema:
        struct = pa.struct([(name, pa.int64()) for name in names])
        return pa.schema([("s", struct), ("l", pa.list_(struct)), ("m", pa.map_(pa.string(), struct))])

    merged = merge_schemas(nested("x"), nested("y"))
    assert merged == nested("x", "y")
    assert [field.name for field in added_fields(nested("x"), merged)] == ["s", "l", "m"]


@pytest.mark.parametrize(
    ("current", "wanted", "place"),
    [
        (pa.int64(), pa.string(), "a"),
        (pa.int32(), pa.int64(), "a"),
        (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.bool_())]), "a.x"),
        (pa.list_(pa.int64()), pa.list_(pa.string()), r"a\[\]"),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.string()), r"a\{\}"),
    ],
)
def test_types_that_exclude_each_other_are_reported(current: pa.DataType, wanted: pa.DataType, place: str) -> None:
    with pytest.raises(SchemaConflictError, match=place):
        merge_schemas(pa.schema([("a", current)]), pa.schema([("a", wanted)]))


def test_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(SchemaConflictError, match="case"):
        merge_schemas(pa.schema([("a", pa.int64())]), pa.schema([("A", pa.int64())]))


def test_layouts_of_libraries_become_plain_types() -> None:
    strange = pa.schema(
        [
            pa.field("s", pa.large_string(), nullable=False, metadata={"id": "1"}),
            pa.field("b", pa.binary_view()),
            pa.field("t", pa.timestamp("ns", tz="+00:00")),
            pa.field("l", pa.large_list(pa.field("element", pa.string_view()))),
            pa.field("x", pa.struct([pa.field("y", pa.large_binary(), nullable=False)])),
            pa.field("m", pa.map_(pa.large_string(), pa.int64())),
        ]
    )
    assert plain_schema(strange).equals(
        pa.schema(
            [
                ("s", pa.string()),
                ("b", pa.binary()),
                ("t", pa.timestamp("us", tz="UTC")),
                ("l", pa.list_(pa.string())),
                ("x", pa.struct([("y", pa.binary())])),
                ("m", pa.map_(pa.string(), pa.int64())),
            ]
        )
    )


def test_rows_of_an_older_schema_get_nulls_wherever_something_is_new() -> None:
    old = pa.RecordBatch.from_pylist(
        [{"s": {"x": 1}, "l": [{"x": 2}, None]}, {"s": None, "l": None}, {"s": {"x": None}, "l": []}],
        schema=pa.schema([("s", pa.struct([("x", pa.int64())])), ("l", pa.list_(pa.struct([("x", pa.int64())])))]),
    )
    item = pa.struct([("y", pa.string()), ("x", pa.int64())])
    new = pa.schema([("n", pa.int32()), ("l", pa.list_(item)), ("s", item)])
    conformed = conform(old, new)
    conformed.validate(full=True)
    assert conformed.to_pylist() == [
        {"n": None, "l": [{"y": None, "x": 2}, None], "s": {"y": None, "x": 1}},
        {"n": None, "l": None, "s": None},
        {"n": None, "l": [], "s": {"y": None, "x": None}},
    ]
    assert conform(old.slice(1), new).to_pylist() == conformed.to_pylist()[1:]


def test_narrow_numbers_become_wide_ones() -> None:
    assert conform_array(pa.array([1, None], pa.int32()), pa.int64()).to_pylist() == [1, None]
    with pytest.raises(pa.ArrowInvalid):
        conform_array(pa.array([1 << 40]), pa.int32())
