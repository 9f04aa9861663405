from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from crabka.spark.lake.formats.iceberg_catalog import NAMESPACE, open_catalog
from crabka.spark.lake.formats.iceberg_names import DEFAULT_NAME_MAPPING
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance.compaction import compact_once, compact_table
from crabka.spark.lake.syncing.commits import evolve_to
from tests.support.spark.lake_tables import lake_of, new_table, written

pytestmark = pytest.mark.allow_leaks(reason="pyiceberg keeps threads and connections")


def read_back(lake: Lake) -> list[dict[str, object]]:
    """The rows as pyiceberg reads them."""
    found = open_catalog(lake.store("orders"), None).load_table((NAMESPACE, "orders"))
    return sorted(found.scan().to_arrow().to_pylist(), key=lambda row: row["kafka_offset"])


def test_a_column_that_another_writer_adds_before_the_first_files_is_read(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table, other = new_table(lake), lake.open("orders")
    assert other is not None
    evolve_to(other, pa.schema([("late", pa.int64())]))
    table.commit(written(lake, table, 0, range(2)), {}, {0: 2})
    table.refresh()
    table.commit(written(lake, table, 0, [2], late=pa.array([7])), {0: 2}, {0: 3})
    assert [row["late"] for row in read_back(lake)] == [None, None, 7]
    assert compact_once(table, 1 << 20).files_removed == 2


@pytest.mark.parametrize("heal", ["commit", "evolve", "compact"])
def test_a_table_that_lacks_names_of_columns_is_healed_by_the_next_change(tmp_path: Path, heal: str) -> None:
    lake = lake_of(tmp_path, "iceberg")
    table = new_table(lake)
    mapping = (
        open_catalog(lake.store("orders"), None).load_table((NAMESPACE, "orders")).properties[DEFAULT_NAME_MAPPING]
    )
    evolve_to(table, pa.schema([("who", pa.struct([("id", pa.int64())]))]))
    for offset in range(2):
        who = pa.array([{"id": offset}], table.spec.schema.field("who").type)
        table.commit(written(lake, table, 0, [offset], who=who), {0: offset} if offset else {}, {0: offset + 1})
        table.refresh()
    found = open_catalog(lake.store("orders"), None).load_table((NAMESPACE, "orders"))
    with found.transaction() as transaction:
        transaction.set_properties({DEFAULT_NAME_MAPPING: mapping})
    table.refresh()
    match heal:
        case "commit":
            table.commit([], {0: 2}, {0: 3})
        case "evolve":
            table.evolve(pa.schema([("more", pa.int64())]))
        case "compact":
            compact_table(table, 1 << 20)
    assert [row["who"] for row in read_back(lake)] == [{"id": 0}, {"id": 1}]
