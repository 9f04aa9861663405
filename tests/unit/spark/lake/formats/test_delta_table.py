"""What only Delta does; the contract of tables is in test_table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import file_name, partition_directory
from crabka.spark.lake.formats.delta_table import RETENTION_KEY, DeltaLakeTable
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.table import TableSpec
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.compaction import compact_table
from crabka.spark.lake.values.schemas import conform, table_schema
from tests.support.spark.lake_reader import table_places
from tests.support.spark.lake_tables import TOPIC_ID, lake_of, new_table, now_ms, rows_of, written
from tests.support.storage.synced_files import SyncedFiles

pytestmark = pytest.mark.allow_leaks(reason="deltalake keeps threads")

DAY_MS = 86_400_000


def test_offsets_are_versions_of_applications_in_the_log(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(5)), {}, {0: 5, 1: 2})
    log = Path(lake.root) / "orders" / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    versions = {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action}
    assert versions == {f"crabka:{TOPIC_ID}:0": 5, f"crabka:{TOPIC_ID}:1": 2}


def test_files_have_statistics_that_contain_their_values(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake, with_date=True)
    table.commit(written(lake, table, 0, range(5)), {}, {0: 5})
    [action] = pa.table(DeltaTable(str(Path(lake.root) / "orders")).get_add_actions(flatten=True)).to_pylist()
    assert (action["num_records"], action["min.kafka_offset"], action["max.kafka_offset"]) == (5, 0, 4)
    assert action["min.kafka_timestamp"].isoformat() == "2026-01-01T00:00:00+00:00"
    assert action["max.kafka_timestamp"].isoformat() == "2026-01-01T04:00:00+00:00"


def test_the_library_reads_what_was_committed_and_compacted(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake, with_date=True)
    for start in (0, 20):
        table.commit(written(lake, table, 0, range(start, start + 20)), {0: start} if start else {}, {0: start + 20})
        table.refresh()
    compact_table(table, 1 << 20)
    rows = DeltaTable(str(Path(lake.root) / "orders")).to_pyarrow_table().to_pylist()
    assert sorted(row["kafka_offset"] for row in rows) == list(range(40))
    assert all(row["kafka_date"] == row["kafka_timestamp"].date() for row in rows)


def test_a_compaction_is_no_change_for_followers_of_changes(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake)
    for start in (0, 5):
        table.commit(written(lake, table, 0, range(start, start + 5)), {0: start} if start else {}, {0: start + 5})
        table.refresh()
    compact_table(table, 1 << 20)
    log = Path(lake.root) / "orders" / "_delta_log" / f"{3:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    changes = [change["dataChange"] for action in actions for change in action.values() if "dataChange" in change]
    assert changes == [False, False, False]


def test_a_table_of_other_software_is_refused(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    DeltaTable.create(str(Path(lake.root) / "orders"), schema=pa.schema([("a", pa.int64())]))
    table = DeltaLakeTable.open(lake.store("orders"), now_ms)
    assert table is not None
    with pytest.raises(LakeError, match="not made by"):
        table.committed_offsets()


def test_an_entry_of_the_log_that_a_power_cut_emptied_counts_for_nothing(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake)
    for start in (0, 5):
        table.commit(written(lake, table, 0, range(start, start + 5)), {0: start} if start else {}, {0: start + 5})
        table.refresh()
    (Path(lake.root) / "orders" / "_delta_log" / f"{2:020d}.json").write_bytes(b"")
    found = lake.open("orders")
    assert found is not None
    assert found.committed_offsets() == {0: 5}
    found.commit(written(lake, found, 0, range(5, 10)), {0: 5}, {0: 10})
    assert table_places(Path(lake.root), "orders", "delta") == [(0, offset) for offset in range(10)]


def test_a_vacuum_leaves_checkpoints_of_the_log_alone(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake)
    for number in range(101):
        table.commit([], {0: number} if number else {}, {0: number + 1})
        table.refresh()
    log = Path(lake.root) / "orders" / "_delta_log"
    before = sorted(path.name for path in log.iterdir())
    assert any(name.endswith(".checkpoint.parquet") for name in before)
    assert table.vacuum(0, now_ms() + DAY_MS).removed == ()
    assert sorted(path.name for path in log.iterdir()) == before
    found = lake.open("orders")
    assert found is not None
    assert found.committed_offsets() == {0: 101}


@pytest.mark.parametrize("directory", ["my lake", "läke", "a+b=c"])
def test_a_vacuum_knows_the_files_of_a_table_whose_address_needs_encoding(tmp_path: Path, directory: str) -> None:
    lake = lake_of(tmp_path / directory, "delta")
    table = new_table(lake)
    for start in (0, 5):
        table.commit(written(lake, table, 0, range(start, start + 5)), {0: start} if start else {}, {0: start + 5})
        table.refresh()
    compact_table(table, 1 << 20)
    assert len(table.vacuum(0, now_ms() + DAY_MS).removed) == 2
    assert table_places(Path(lake.root), "orders", "delta") == [(0, offset) for offset in range(10)]


def days_ago(days: int) -> Callable[[], int]:
    return lambda: now_ms() - days * DAY_MS


def test_a_grace_of_weeks_holds_after_a_checkpoint(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"), "delta", days_ago(10))
    table = new_table(lake)
    for start in (0, 5):
        table.commit(written(lake, table, 0, range(start, start + 5)), {0: start} if start else {}, {0: start + 5})
        table.refresh()
    replaced = [Path(lake.root) / "orders" / file.path for file in table.files()]
    compact_table(table, 1 << 20)
    for path in replaced:
        os.utime(path, (days_ago(40)() / 1000,) * 2)
    DeltaTable(str(Path(lake.root) / "orders")).create_checkpoint()
    assert table.vacuum(30 * DAY_MS, now_ms()).removed == ()
    assert len(table.vacuum(5 * DAY_MS, now_ms()).removed) == 2


@pytest.mark.parametrize(
    ("retention", "days"),
    [(None, 30), ("interval 2 weeks", 14), ("interval 48 hours", 2), ("interval 1 nanosecond", 0)],
)
def test_a_grace_that_the_log_does_not_reach_back_to_is_refused(
    tmp_path: Path, retention: str | None, days: int
) -> None:
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake)
    if retention is not None:
        DeltaTable(str(Path(lake.root) / "orders")).alter.set_table_properties({RETENTION_KEY: retention})
    assert table.vacuum(days * DAY_MS, now_ms()).removed == ()
    with pytest.raises(LakeError, match=f"longer than {RETENTION_KEY}"):
        table.vacuum(days * DAY_MS + 1, now_ms())


def test_checkpoints_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = SyncedFiles(monkeypatch)
    lake = lake_of(tmp_path, "delta")
    table = new_table(lake)
    for number in range(101):
        table.commit([], {0: number} if number else {}, {0: number + 1})
        table.refresh()
    directory = Path(lake.root) / "orders"
    assert (directory / "_delta_log" / "_last_checkpoint").exists()
    assert synced.missing(directory) == []


def test_whatever_the_library_raises_is_reported(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    schema = table_schema([pa.field("moment", pa.time64("us"))], with_date=False)
    with pytest.raises(LakeError, match=r"The Delta table .* Invalid data type for Delta Lake: Time64\(µs\)$"):
        lake.create("orders", TableSpec("orders", TOPIC_ID, schema))
    with pytest.raises(LakeError, match="Invalid data type"):
        new_table(lake).evolve(pa.schema([("moment", pa.time64("us"))]))


def test_values_of_boolean_partitions_are_spelled_the_same_by_all(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "delta")
    schema = table_schema([pa.field("kind", pa.bool_())], with_date=False)
    table = lake.create("orders", TableSpec("orders", TOPIC_ID, schema, "kind"))
    plain = pa.schema([field for field in schema if field.name != "kind"])
    for start in (0, 5):
        writer = ParquetFileWriter(lake.store("orders"), f"kind=true/{start}.parquet", plain, partition_value="true")
        writer.write(conform(rows_of(0, range(start, start + 5)), plain))
        table.commit([writer.close()], {0: start} if start else {}, {0: start + 5})
        table.refresh()
    assert {file.partition_value for file in table.files()} == {"true"}
    compact_table(table, 1 << 20)
    log = Path(lake.root) / "orders" / "_delta_log" / f"{3:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    values = {str(change["partitionValues"]) for action in actions for change in action.values() if "path" in change}
    assert values == {"{'kind': 'true'}"}


@pytest.mark.parametrize("column", ["kind", "_kind", "_ki nd"])
def test_a_vacuum_knows_what_was_replaced_lately_in_any_partition(tmp_path: Path, column: str) -> None:
    lake = lake_of(tmp_path, "delta")
    schema = table_schema([pa.field(column, pa.string())], with_date=False)
    table = lake.create("orders", TableSpec("orders", TOPIC_ID, schema, column))
    plain = pa.schema([field for field in schema if field.name != column])
    for start in (0, 5):
        path = file_name(partition_directory(column, "x"), start, 0, "unique")
        writer = ParquetFileWriter(lake.store("orders"), path, plain, partition_value="x")
        writer.write(conform(rows_of(0, range(start, start + 5)), plain))
        table.commit([writer.close()], {0: start} if start else {}, {0: start + 5})
        os.utime(Path(lake.root) / "orders" / path, (days_ago(9)() / 1000,) * 2)
        table.refresh()
    compact_table(table, 1 << 20)
    assert table.vacuum(DAY_MS, now_ms()).removed == ()
