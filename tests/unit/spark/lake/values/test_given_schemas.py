from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from crabka.errors import ConfigError
from crabka.spark.lake.values.avro_values import AvroValues
from crabka.spark.lake.values.given_schemas import decoder_of, fields_of
from crabka.spark.lake.values.json_values import JsonValues
from crabka.spark.lake.values.value_modes import RawValues

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "long"]}]}'
SPARK = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "long", "nullable": True, "metadata": {}},
            {
                "name": "l",
                "type": {"type": "array", "elementType": "string", "containsNull": True},
                "nullable": True,
                "metadata": {},
            },
            {"name": "t", "type": "timestamp", "nullable": False, "metadata": {}},
        ],
    }
)


def test_schemas_of_avro_and_of_spark_name_the_same_columns() -> None:
    assert fields_of(AVRO) == [pa.field("a", pa.int64())]
    assert fields_of(f"\n{SPARK}") == [
        pa.field("a", pa.int64()),
        pa.field("l", pa.list_(pa.string())),
        pa.field("t", pa.timestamp("us", tz="UTC")),
    ]


def test_modes_take_their_schemas() -> None:
    assert decoder_of("json", AVRO) == JsonValues((pa.field("a", pa.int64()),))
    assert decoder_of("json", None).infers
    assert isinstance(decoder_of("avro", AVRO), AvroValues)
    assert isinstance(decoder_of("raw", None), RawValues)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ({"type": "map", "values": "long"}, "a"),
        ({"type": "array", "items": {"type": "map", "values": "long"}}, "a"),
        ({"type": "record", "name": "S", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]}, "a.m"),
    ],
)
def test_types_that_json_cannot_be_read_into_are_refused(kind: dict[str, Any], place: str) -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})
    with pytest.raises(ConfigError, match=f"The column {place} of the schema is map"):
        decoder_of("json", schema)
    assert isinstance(decoder_of("avro", schema), AvroValues)


@pytest.mark.parametrize("kind", ["void", "interval day to second"])
def test_types_of_spark_that_json_cannot_be_read_into_are_refused(kind: str) -> None:
    field = {"name": "a", "type": kind, "nullable": True, "metadata": {}}
    with pytest.raises(ConfigError, match="The column a of the schema is"):
        decoder_of("json", json.dumps({"type": "struct", "fields": [field]}))


@pytest.mark.parametrize("schema", ["{", '{"type": "struct"}', '{"type": "struct", "fields": [{"name": "a"}]}', "{}"])
def test_a_schema_that_is_none_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError):
        fields_of(schema)
