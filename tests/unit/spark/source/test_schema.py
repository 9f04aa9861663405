from __future__ import annotations

import pytest
from pyspark.sql import types as pyspark_types
from pyspark.sql.pandas.types import to_arrow_schema

from crabka.errors import ConfigError
from crabka.spark.decode import arrow_schema, spark_schema_columns
from crabka.spark.source.schema import projected_columns, source_schema

StructType = pyspark_types.StructType
BINARY, INT, LONG = pyspark_types.BinaryType(), pyspark_types.IntegerType(), pyspark_types.LongType()
HEADER = StructType().add("key", pyspark_types.StringType()).add("value", BINARY)
ALL = (
    StructType()
    .add("key", BINARY)
    .add("value", BINARY)
    .add("topic", pyspark_types.StringType())
    .add("partition", INT)
    .add("offset", LONG)
    .add("timestamp", pyspark_types.TimestampType())
    .add("timestampType", INT)
    .add("headers", pyspark_types.ArrayType(HEADER))
)


def test_headers_are_there_on_demand() -> None:
    assert source_schema(include_headers=False).endswith("timestampType int")
    assert source_schema(include_headers=True).endswith(", headers array<struct<key:string,value:binary>>")


def test_a_schema_is_a_projection_in_its_own_order() -> None:
    assert projected_columns(StructType().add("OFFSET", LONG).add("key", BINARY)) == ("offset", "key")
    assert projected_columns(ALL) == spark_schema_columns()


def test_rows_are_just_what_spark_expects() -> None:
    assert to_arrow_schema(ALL, timezone="UTC").equals(arrow_schema(spark_schema_columns()))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (StructType().add("offset", INT), "the column offset is bigint, not int"),
        (StructType().add("colour", INT), "there is no column colour"),
        (StructType().add("key", BINARY).add("KEY", BINARY), "key is asked for twice"),
        (StructType(), "at least one column"),
    ],
)
def test_other_schemas_are_refused(schema: pyspark_types.StructType, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        projected_columns(schema)
