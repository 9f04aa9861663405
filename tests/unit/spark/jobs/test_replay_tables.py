"""Tables of every format are replayed in the order of offsets; tasks run in this thread."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.jobs.replay import ReplayedPartition
from crabka.spark.jobs.replay_tables import FilePart, TableReader, in_offset_order, replay_lake_table
from crabka.spark.jobs.replay_writer import ReplayRow, ReplayTarget
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.table import TableSpec
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.compaction import compact_table
from crabka.spark.lake.values.schemas import PARTITION, RAW_VALUE_FIELD, table_schema
from tests.support.clusters.loopback import loopback_cluster
from tests.support.coordinators.memory_transactions import MemoryTransactions
from tests.support.spark.lake_tables import ALL_FORMATS, TOPIC_ID, lake_of, new_table, rows_of, written
from tests.support.spark.one_thread import OneThreadSpark

pytestmark = pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections")

SPARK = cast("Any", OneThreadSpark())
World = tuple[MemoryTransactions, ReplayTarget]


@pytest.fixture
def world() -> Iterator[World]:
    with loopback_cluster() as (cluster, bootstrap):
        cluster.create_topic("copy", 2)
        target = ReplayTarget(bootstrap=bootstrap, topic="copy", name="r", transaction_records=7)
        yield MemoryTransactions(cluster), target


def values(offsets: Sequence[int]) -> list[bytes]:
    return [b"value-%d" % offset for offset in offsets]


def replay(lake: Lake, target: ReplayTarget) -> list[ReplayedPartition]:
    return replay_lake_table(SPARK, f"{lake.root}/orders", lake.table_format, target)


@pytest.mark.parametrize("table_format", ALL_FORMATS)
def test_partitions_are_replayed_by_offset_from_files_of_many_days(
    world: World, tmp_path: Path, table_format: str
) -> None:
    coordinator, target = world
    lake = lake_of(tmp_path, table_format)
    table = new_table(lake, with_date=True)
    first = [offset for start in range(10) for offset in range(start, 100, 10)]  # days come and go
    table.commit(written(lake, table, 0, sorted(first)) + written(lake, table, 1, range(5, 25)), {}, {0: 100, 1: 25})
    table.refresh()
    assert replay(lake, target) == [ReplayedPartition(0, 100, 100), ReplayedPartition(1, 20, 25)]
    assert coordinator.committed_values[TopicPartition("copy", 0)] == values(range(100))
    assert coordinator.committed_values[TopicPartition("copy", 1)] == values(range(5, 25))
    record = coordinator.cluster.topics["copy"][1].records()[0]
    assert (record.key, record.timestamp) == (b"key-5", 1_767_225_600_000 + 5 * 3_600_000)


def test_a_second_run_goes_on_in_files_that_compaction_mixed(world: World, tmp_path: Path) -> None:
    coordinator, target = world
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(10)) + written(lake, table, 1, range(10)), {}, {0: 10, 1: 10})
    table.refresh()
    assert replay(lake, target) == [ReplayedPartition(0, 10, 10), ReplayedPartition(1, 10, 10)]
    table.commit(written(lake, table, 0, range(10, 30)), {0: 10, 1: 10}, {0: 30, 1: 10})
    table.refresh()
    compact_table(table, 1 << 30)
    table.refresh()
    assert len(table.files()) == 1
    assert replay(lake, target) == [ReplayedPartition(0, 20, 30), ReplayedPartition(1, 0, 10)]
    assert coordinator.committed_values[TopicPartition("copy", 0)] == values(range(30))


def test_a_delta_table_may_be_partitioned_by_a_column_of_the_log(world: World, tmp_path: Path) -> None:
    coordinator, target = world
    lake = lake_of(tmp_path, "delta")
    table = lake.create(
        "orders", TableSpec("orders", TOPIC_ID, table_schema([RAW_VALUE_FIELD], with_date=False), PARTITION)
    )
    files: list[DataFile] = []
    for partition in (0, 1):
        batch = rows_of(partition, range(10)).drop_columns([PARTITION])
        path = f"{PARTITION}={partition}/file.parquet"
        writer = ParquetFileWriter(lake.store("orders"), path, batch.schema, partition_value=str(partition))
        writer.write(batch)
        files.append(writer.close())
    table.commit(files, {}, {0: 10, 1: 10})
    assert [each.records for each in replay(lake, target)] == [10, 10]
    assert coordinator.committed_values[TopicPartition("copy", 1)] == values(range(10))


@pytest.mark.parametrize("table_format", ALL_FORMATS)
def test_an_empty_table_has_nothing_to_replay(world: World, tmp_path: Path, table_format: str) -> None:
    _, target = world
    lake = lake_of(tmp_path, table_format)
    new_table(lake)
    assert replay(lake, target) == []


def test_only_raw_values_are_replayed(world: World, tmp_path: Path) -> None:
    _, target = world
    lake = lake_of(tmp_path, "delta")
    with pytest.raises(ConfigError, match="there is no delta table at"):
        replay(lake, target)
    for field, words in (
        (pa.field("value", pa.string()), "the column value is string"),
        (pa.field("amount", pa.int64()), "the table has no column value"),
    ):
        lake = lake_of(tmp_path / field.name, "delta")
        lake.create("orders", TableSpec("orders", TOPIC_ID, table_schema([field], with_date=False)))
        with pytest.raises(ConfigError, match=words):
            replay(lake, target)


def test_a_catalog_is_that_of_iceberg(world: World, tmp_path: Path) -> None:
    _, target = world
    with pytest.raises(ConfigError, match="only for Iceberg"):
        replay_lake_table(SPARK, f"{tmp_path}/lake/orders", "delta", target, catalog="prod")


def test_tasks_get_the_reader_as_it_is(tmp_path: Path) -> None:
    reader = TableReader(lake_of(tmp_path, "delta").store("orders"), PARTITION)
    assert pickle.loads(pickle.dumps(reader)) == reader  # noqa: S301 - as it goes to tasks


def test_files_open_when_they_are_due() -> None:
    contents = {"a": [0, 3, 9], "b": [1, 2, 4], "c": [10, 11], "empty": []}
    parts = [
        FilePart(path=path, least=min(found, default=5), greatest=max(found, default=5), is_sorted=True, constant=None)
        for path, found in contents.items()
    ]
    opened: list[str] = []

    def rows(part: FilePart) -> Iterator[ReplayRow]:
        opened.append(part.path)
        return iter([ReplayRow(offset, None, None, (), 0) for offset in contents[part.path]])

    merged = in_offset_order(parts, rows)
    assert [next(merged).offset for _ in range(3)] == [0, 1, 2]
    assert opened == ["a", "b"]
    assert [row.offset for row in merged] == [3, 4, 9, 10, 11]
    assert opened == ["a", "b", "empty", "c"]


def test_a_file_that_another_tool_has_reordered_is_sorted(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    (file,) = written(lake, table, 0, [5, 3, 4])
    reader = TableReader(lake.store("orders"), None)
    parts = reader.parts(file.path, None)
    assert parts == {0: FilePart(path=file.path, least=3, greatest=5, is_sorted=False, constant=None)}
    assert [row.offset for row in reader.rows(0, parts[0])] == [3, 4, 5]
