from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import ColumnRange
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.values.schemas import conform
from tests.support.spark.lake_tables import raw_spec, rows_of

HOUR_US = 3_600_000_000


def test_a_file_has_its_rows_and_ranges(tmp_path: Path) -> None:
    schema = raw_spec().schema
    writer = ParquetFileWriter(LakeStore(str(tmp_path), "t"), "d/f.parquet", schema, partition_value="d")
    for offsets in ([5, 7], [3]):
        writer.write(conform(rows_of(0, offsets), schema))
    assert writer.rows == 3
    file = writer.close()
    assert (file.rows, file.partition_value, file.offsets) == (3, "d", ColumnRange(3, 7))
    assert file.timestamps_us is not None
    assert file.timestamps_us.greatest - file.timestamps_us.least == 4 * HOUR_US
    assert file.size_bytes == (tmp_path / "t" / "d" / "f.parquet").stat().st_size
    assert pq.read_table(tmp_path / "t" / "d" / "f.parquet").column("kafka_offset").to_pylist() == [5, 7, 3]


def test_numbers_of_the_log_are_kept_as_differences(tmp_path: Path) -> None:
    schema = raw_spec().schema
    writer = ParquetFileWriter(LakeStore(str(tmp_path), "t"), "f.parquet", schema)
    writer.write(conform(rows_of(0, range(10_000)), schema))
    writer.close()
    group = pq.ParquetFile(tmp_path / "t" / "f.parquet").metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    sizes = {column.path_in_schema: column.total_uncompressed_size for column in columns}
    for name in ("kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_timestamp_type"):
        assert sizes[name] < 10_000, name


def test_a_file_that_is_given_up_is_gone(tmp_path: Path) -> None:
    schema = raw_spec().schema
    writer = ParquetFileWriter(LakeStore(str(tmp_path), "t"), "f.parquet", schema)
    writer.write(conform(rows_of(0, [1]), schema))
    writer.give_up()
    assert list((tmp_path / "t").iterdir()) == []


def test_a_disk_that_does_not_take_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"no directory")
    with pytest.raises(LakeError, match=rf"^file://{tmp_path}/t/d/f\.parquet cannot be written: Not a directory$"):
        ParquetFileWriter(LakeStore(str(tmp_path), "t"), "d/f.parquet", raw_spec().schema)
