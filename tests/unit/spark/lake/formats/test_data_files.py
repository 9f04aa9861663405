from __future__ import annotations

import json

import pytest

from crabka.spark.lake.formats.data_files import ColumnRange, DataFile, file_name, partition_directory


@pytest.mark.parametrize(
    "file",
    [
        DataFile("a.parquet", 1, 2),
        DataFile("d/a.parquet", 1, 2, "2026-01-01", ColumnRange(3, 4), ColumnRange(-5, 6)),
    ],
)
def test_a_file_survives_json(file: DataFile) -> None:
    assert DataFile.from_json(json.loads(json.dumps(file.to_json()))) == file


def test_names_are_safe_and_sort_by_offset() -> None:
    assert file_name("", 7, 3, "one/two") == "part-00003-00000000000000000007-one-two.parquet"
    assert file_name("d=1", 7, 3, "x") < file_name("d=1", 10, 3, "x")


def test_directories_are_readable_or_at_least_different() -> None:
    assert partition_directory(None, "x") == ""
    assert partition_directory("kafka_date", "2026-01-01") == "kafka_date=2026-01-01"
    assert partition_directory("a", None) == "a=__HIVE_DEFAULT_PARTITION__"
    odd = {partition_directory("a", value) for value in ("a b", "a/b", "a%b", "ü", "x" * 300)}
    assert len(odd) == 5
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-=") and len(name) < 100 for name in odd)
