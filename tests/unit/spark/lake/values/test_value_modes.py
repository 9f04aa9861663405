from __future__ import annotations

import pyarrow as pa
import pytest

from crabka.errors import ConfigError
from crabka.spark.lake.values.avro_values import AvroValues
from crabka.spark.lake.values.json_values import JsonValues
from crabka.spark.lake.values.value_modes import RawValues, rows_but, value_decoder

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'


def test_raw_values_stay_what_they_are() -> None:
    values = pa.array([b"a", None, b""], pa.binary())
    decoded = value_decoder("raw", None).decode(values)
    assert decoded.columns == [values]
    assert [field.name for field in decoded.fields] == ["value"]
    assert decoded.bad == ()
    assert RawValues().with_fields([pa.field("a", pa.int64())]).fields == RawValues().fields


def test_json_without_fields_looks_for_them() -> None:
    assert value_decoder("json", None) == JsonValues((), infers=True)
    assert value_decoder("json", None, [pa.field("a", pa.int64())]) == JsonValues((pa.field("a", pa.int64()),))


def test_avro_takes_its_schema() -> None:
    for mode, has_prefix in (("avro", None), ("avro-plain", False), ("avro-confluent", True)):
        decoder = value_decoder(mode, AVRO)
        assert isinstance(decoder, AvroValues)
        assert decoder.has_prefix is has_prefix


@pytest.mark.parametrize(("mode", "schema"), [("avro", None), ("raw", AVRO), ("xml", None)])
def test_modes_that_make_no_sense_are_refused(mode: str, schema: str | None) -> None:
    with pytest.raises(ConfigError):
        value_decoder(mode, schema)


def test_rows_that_are_not_bad_keep_their_order() -> None:
    assert rows_but(5, [(1, "x"), (3, "y")]).to_pylist() == [0, 2, 4]
