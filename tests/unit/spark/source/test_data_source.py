from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql.types import BinaryType, LongType, StructType

from crabka.errors import ConfigError
from crabka.spark.source.batch_reader import CrabkaBatchReader
from crabka.spark.source.data_source import CrabkaDataSource
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
