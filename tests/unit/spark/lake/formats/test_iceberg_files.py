from __future__ import annotations

import datetime
from collections.abc import Mapping
from struct import pack

import pytest
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import BooleanType, DateType, LongType, NestedField, StringType

from crabka.spark.lake.formats.data_files import ColumnRange, DataFile
from crabka.spark.lake.formats.iceberg_files import data_file
from crabka.spark.lake.values.schemas import OFFSET

SCHEMA = Schema(
    NestedField(1, OFFSET, LongType()),
    NestedField(2, "day", DateType()),
    NestedField(3, "city", StringType()),
    NestedField(4, "paid", BooleanType()),
)
BOUNDS = {1: pack("<q", 7)}, {1: pack("<q", 1 << 40)}


def stored(*partition: object, bounds: tuple[Mapping[int, bytes] | None, ...] = BOUNDS) -> IcebergFile:
    lower, upper = bounds
    return IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path="file:///lake/t/f.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=12,
        file_size_in_bytes=345,
        lower_bounds=lower,
        upper_bounds=upper,
    )


def by(column: str) -> PartitionSpec:
    source = SCHEMA.find_field(column).field_id
    return PartitionSpec(PartitionField(source_id=source, field_id=1000, transform=IdentityTransform(), name=column))


def test_a_file_is_described_with_its_offsets() -> None:
    assert data_file(stored(), "f.parquet", SCHEMA, PartitionSpec()) == DataFile(
        "f.parquet", 12, 345, None, ColumnRange(7, 1 << 40)
    )


@pytest.mark.parametrize("bounds", [(None, None), ({}, {}), (BOUNDS[0], None), ({}, BOUNDS[1])])
def test_bounds_may_be_missing(bounds: tuple[Mapping[int, bytes] | None, ...]) -> None:
    assert data_file(stored(bounds=bounds), "f.parquet", SCHEMA, PartitionSpec()).offsets is None


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("day", (datetime.date(2026, 11, 18) - datetime.date(1970, 1, 1)).days, "2026-11-18"),
        ("day", -1, "1969-12-31"),
        ("city", "Oslo", "Oslo"),
        ("paid", True, "true"),
        (OFFSET, 5, "5"),
        ("day", None, None),
        ("city", None, None),
    ],
)
def test_partition_values_are_texts(column: str, value: object, text: str | None) -> None:
    assert data_file(stored(value), "f.parquet", SCHEMA, by(column)).partition_value == text
