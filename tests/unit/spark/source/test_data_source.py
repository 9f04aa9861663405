from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import types as pyspark_types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StructType

from crabka.errors import ConfigError
from crabka.spark.decode import arrow_schema, spark_schema_columns
from crabka.spark.source.batch_reader import CrabkaBatchReader
from crabka.spark.source.data_source import CrabkaDataSource, projected_columns, source_schema
from crabka.spark.source.stream_reader import CrabkaStreamReader

GIVEN = {"kafka.bootstrap.servers": "x:1", "subscribe": "t"}


def test_readers_are_made_from_options_and_schema() -> None:
    source = CrabkaDataSource(GIVEN)
    schema = StructType().add("offset", LongType()).add("key", BinaryType())
    assert CrabkaDataSource.name() == "crabka"
    assert isinstance(source.reader(schema), CrabkaBatchReader)
    assert isinstance(source.streamReader(schema), CrabkaStreamReader)


def test_headers_are_a_column_on_demand() -> None:
    assert "headers" not in CrabkaDataSource(GIVEN).schema()
    assert "headers" in CrabkaDataSource(GIVEN | {"includeHeaders": "TRUE"}).schema()


def test_options_are_checked_before_anything_is_asked() -> None:
    with pytest.raises(ConfigError, match="must be given"):
        CrabkaDataSource({"kafka.bootstrap.servers": "x:1"}).reader(StructType().add("offset", LongType()))


def test_registering_by_name_imports_nothing_heavy() -> None:
    code = (
        "import sys, pyspark_crabka; assert pyspark_crabka.DefaultSource.name() == 'crabka'; "
        "heavy = {'pyarrow', 'numba', 'numpy', 'pandas', 'obstore', 'deltalake', 'pyiceberg'} & set(sys.modules); "
        "import pyspark.sql.datasource; print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


BINARY, INT, LONG = BinaryType(), pyspark_types.IntegerType(), LongType()
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
