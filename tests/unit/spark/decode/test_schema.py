"""The schema is the one that Spark's Arrow reader demands for the columns of its own Kafka source."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from crabka.spark.decode import arrow_schema, spark_schema_columns

KAFKA_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
    ]
)


def test_the_columns_are_those_of_the_kafka_source() -> None:
    assert spark_schema_columns() == tuple(KAFKA_SCHEMA.names)


def test_the_arrow_types_are_those_that_spark_makes() -> None:
    assert arrow_schema(spark_schema_columns()).equals(to_arrow_schema(KAFKA_SCHEMA, timezone="UTC"))


def test_columns_come_in_the_order_that_was_asked_for() -> None:
    assert arrow_schema(["offset", "partition"]) == pa.schema([("offset", pa.int64()), ("partition", pa.int32())])


@pytest.mark.parametrize(
    ("columns", "message"),
    [([], "at least one"), (["value", "length"], "no column 'length'"), (["key", "key"], "named twice")],
)
def test_impossible_columns_are_refused(columns: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arrow_schema(columns)
