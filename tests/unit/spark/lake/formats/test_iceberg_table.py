"""What only Iceberg does; the contract of tables is in test_table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update.snapshot import ExpireSnapshots

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.iceberg_catalog import NAMESPACE, open_catalog
from crabka.spark.lake.formats.table import TableFormat
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.compaction import compact_table
from tests.support.spark.lake_reader import table_places
from tests.support.spark.lake_tables import lake_of, new_table, now_ms, written

pytestmark = pytest.mark.allow_leaks(reason="pyiceberg keeps threads and connections")

HOUR_MS = 3_600_000


def test_the_library_reads_what_was_committed_and_compacted(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake, with_date=True)
    for start in (0, 20):
        table.commit(written(lake, table, 0, range(start, start + 20)), {0: start} if start else {}, {0: start + 20})
        table.refresh()
    compact_table(table, 1 << 20)
    found = open_catalog(lake.store("orders"), None).load_table((NAMESPACE, "orders"))
    rows = found.scan().to_arrow().to_pylist()
    assert sorted(row["kafka_offset"] for row in rows) == list(range(40))
    assert found.scan(row_filter="kafka_date = '2026-01-01'").to_arrow().num_rows == 24
    assert found.properties["crabka.offsets"] == '{"0":40}'
    assert found.properties["commit.retry.num-retries"] == "0"


def test_snapshots_have_the_offsets_that_they_reach(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(5)), {}, {0: 5})
    table.refresh()
    table.commit([], {0: 5}, {0: 7})
    found = open_catalog(lake.store("orders"), None).load_table((NAMESPACE, "orders"))
    reached = [snapshot.summary["crabka.offsets"] for snapshot in found.snapshots() if snapshot.summary is not None]
    assert reached == ['{"0":5}', '{"0":7}']


def test_a_vacuum_expires_snapshots_and_removes_their_metadata(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    for start in range(3):
        table.commit(written(lake, table, 0, [start]), {0: start} if start else {}, {0: start + 1})
        table.refresh()
    metadata = Path(lake.root) / "orders" / "metadata"
    before = set(metadata.glob("*.avro"))
    assert table.vacuum(HOUR_MS, now_ms()).removed == ()
    removed = table.vacuum(0, now_ms() + HOUR_MS).removed
    assert {path.rpartition("/")[2] for path in removed} == {
        path.name for path in before - set(metadata.glob("*.avro"))
    }
    assert all(path.startswith("metadata/snap-") for path in removed)
    found = open_catalog(lake.store("orders"), None).load_table((NAMESPACE, "orders"))
    assert len(found.snapshots()) == 1
    assert found.scan().to_arrow().num_rows == 3


def test_metadata_that_a_power_cut_emptied_are_reported(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(5)), {}, {0: 5})
    newest = max((Path(lake.root) / "orders" / "metadata").glob("*.metadata.json"))
    newest.write_bytes(b"")
    with pytest.raises(LakeError, match=r"The Iceberg table file://.*/orders: .*Invalid JSON"):
        lake.open("orders")


def test_a_table_is_synced_and_kept_through_another_name_of_its_directory(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(3)), {}, {0: 3})
    (tmp_path / "link").symlink_to(lake.root)
    linked = Lake(str(tmp_path / "link"), "iceberg", now_ms)
    through_link = linked.open("orders")
    assert through_link is not None
    through_link.commit(written(linked, through_link, 0, range(3, 5)), {0: 3}, {0: 5})
    through_link.refresh()
    assert compact_table(through_link, 1 << 20).files_removed == 2
    assert len([path for path in through_link.vacuum(0, now_ms() + HOUR_MS).removed if path.endswith("parquet")]) == 2
    table.refresh()
    assert table.committed_offsets() == {0: 5}
    assert table_places(Path(lake.root), "orders", "iceberg") == [(0, offset) for offset in range(5)]


def test_a_copy_of_a_lake_is_refused_because_its_catalog_names_the_other_one(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(3)), {}, {0: 3})
    shutil.copytree(lake.root, tmp_path / "copy")
    with pytest.raises(LakeError, match=r"copy/orders is at file://.*/lake/orders by its catalog"):
        Lake(str(tmp_path / "copy"), "iceberg", now_ms).open("orders")


def commits(lake: Lake, table: TableFormat, start: int, end: int) -> None:
    for number in range(start, end):
        table.commit(written(lake, table, 0, [number]), {0: number} if number else {}, {0: number + 1})
        table.refresh()


def test_only_the_metadata_of_the_last_commits_stay(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table, reader = new_table(lake), lake.open("orders")
    assert reader is not None
    found = open_catalog(lake.store("orders"), None).load_table((NAMESPACE, "orders"))
    with found.transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "5"})
    table.refresh()
    commits(lake, table, 0, 10)
    metadata = Path(lake.root) / "orders" / "metadata"
    assert len(list(metadata.glob("*.metadata.json"))) == 6
    reader.refresh()
    assert len(reader.files()) == 10


def test_a_vacuum_removes_metadata_that_lost_a_race(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    commits(lake, table, 0, 3)
    metadata = Path(lake.root) / "orders" / "metadata"
    known = set(metadata.glob("*.metadata.json"))
    lost = metadata / "00002-lost.metadata.json"
    lost.write_text("{}")
    assert table.vacuum(HOUR_MS, now_ms()).removed == ()
    assert "metadata/00002-lost.metadata.json" in table.vacuum(0, now_ms() + HOUR_MS).removed
    assert known <= set(metadata.glob("*.metadata.json"))
    assert lake.open("orders") is not None


def test_a_vacuum_keeps_the_snapshots_of_tags(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    commits(lake, table, 0, 2)
    compact_table(table, 1 << 20)
    found = open_catalog(lake.store("orders"), None).load_table((NAMESPACE, "orders"))
    [first, second, _] = found.snapshots()
    found.manage_snapshots().create_tag(second.snapshot_id, "keep").commit()
    removed = table.vacuum(0, now_ms() + HOUR_MS).removed
    assert not any(path.endswith(".parquet") for path in removed)
    found.refresh()
    assert first.snapshot_id not in [snapshot.snapshot_id for snapshot in found.snapshots()]
    assert found.scan(snapshot_id=second.snapshot_id).to_arrow().num_rows == 2


def test_a_vacuum_is_tried_again_if_others_commit_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table, other = new_table(lake), lake.open("orders")
    assert other is not None
    commits(lake, table, 0, 3)
    commit, failures = ExpireSnapshots.commit, [0]

    def fail_first(update: ExpireSnapshots) -> None:
        failures[0] += 1
        if failures[0] < 3:
            raise CommitFailedException("another writer")
        commit(update)

    monkeypatch.setattr(ExpireSnapshots, "commit", fail_first)
    assert len([path for path in table.vacuum(0, now_ms() + HOUR_MS).removed if path.endswith(".avro")]) == 2
    assert table_places(Path(lake.root), "orders", "iceberg") == [(0, offset) for offset in range(3)]


def test_a_disk_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    commits(lake, table, 0, 2)
    for manifest in (Path(lake.root) / "orders" / "metadata").glob("*.avro"):
        manifest.unlink()
    for act in (table.files, lambda: compact_table(table, 1 << 20), lambda: table.vacuum(0, now_ms())):
        with pytest.raises(LakeError, match="The Iceberg table"):
            act()
