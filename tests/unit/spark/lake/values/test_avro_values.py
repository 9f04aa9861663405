from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from crabka.errors import ConfigError
from crabka.spark.lake.values.avro_values import AvroValues

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "who", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    ],
}
RECORD = {
    "id": 0,
    "name": "crab",
    "at": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
    "who": "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    "price": Decimal("12.34"),
}
WIRE = b"\x00\x00\x00\x00\x2a"


def encoded(record: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), record)
    return stream.getvalue()


def rows(*values: bytes | None) -> tuple[list[dict[str, Any]], dict[int, str]]:
    decoder = pickle.loads(pickle.dumps(AvroValues.of(json.dumps(SCHEMA))))  # noqa: S301 - as it goes to tasks
    decoded = decoder.decode(pa.array(values, pa.binary()))
    names = [field.name for field in decoded.fields]
    table = zip(*(column.to_pylist() for column in decoded.columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in table], dict(decoded.bad)


def test_records_are_read_with_and_without_the_prefix_of_a_registry() -> None:
    data = encoded(RECORD)
    assert data[0] == 0  # so that the first byte alone decides nothing
    assert rows(data, WIRE + data, None) == ([RECORD, RECORD, dict.fromkeys(RECORD)], {})


def test_whether_there_is_a_prefix_can_be_said() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "bytes"}],
    }
    stream = io.BytesIO()
    # A plain record that is one with a prefix as well: its first five bytes, and then a string and no bytes.
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"a": "", "b": b"\x01\x02\x03\x02X\x00"})
    found = {}
    for has_prefix in (None, False, True):
        decoder = pickle.loads(pickle.dumps(AvroValues.of(json.dumps(schema), has_prefix=has_prefix)))  # noqa: S301
        decoded = decoder.decode(pa.array([stream.getvalue(), b"\x02X\x00"], pa.binary()))
        found[has_prefix] = (decoded.columns[0].to_pylist(), [index for index, _ in decoded.bad])
    assert found == {None: (["X", "X"], []), False: (["", "X"], []), True: (["X"], [1])}


@pytest.mark.parametrize("value", [b"", b"\x00", WIRE, b"nonsense", WIRE + b"nonsense", encoded(RECORD) + b"x"])
def test_what_is_not_exactly_one_record_is_reported(value: bytes) -> None:
    found, bad = rows(encoded(RECORD), value, encoded(RECORD))
    assert len(found) == 2
    assert list(bad) == [1]


def test_a_number_that_its_column_cannot_hold_is_reported() -> None:
    wide = dict(SCHEMA, fields=[dict(field) for field in SCHEMA["fields"]])
    wide["fields"][4] = {"name": "price", "type": {**SCHEMA["fields"][4]["type"], "precision": 20}}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(wide), RECORD | {"price": Decimal("123456789.00")})
    found, bad = rows(encoded(RECORD), stream.getvalue(), encoded(RECORD), encoded(RECORD))
    assert len(found) == 3
    assert list(bad) == [1]


@pytest.mark.parametrize("schema", ["", "{", '"long"', '{"type": "record", "name": "R"}', '{"type": "record"}'])
def test_a_schema_that_is_none_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="Avro schema"):
        AvroValues.of(schema)


def test_the_schema_alone_says_which_fields_there_are() -> None:
    decoder = AvroValues.of(json.dumps(SCHEMA))
    assert decoder.with_fields([pa.field("more", pa.int64())]) is decoder
    assert not decoder.infers


def test_a_record_that_is_cut_off_says_so() -> None:
    assert rows(encoded(RECORD | {"id": 1})[:4]) == (
        [],
        {0: "not a record of the schema: its bytes end before the record does"},
    )
