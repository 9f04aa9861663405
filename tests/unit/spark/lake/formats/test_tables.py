from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crabka.errors import ConfigError
from crabka.spark.lake import files
from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.tables import Lake
from tests.support.spark.lake_tables import ALL_FORMATS, lake_of, new_table, now_ms, written


@pytest.mark.parametrize("form", ["{}/lake/orders", "{}/lake/orders/", "file://{}/lake/orders"])
def test_readers_get_the_files_that_are_committed_and_no_others(tmp_path: Path, form: str) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(3)), {}, {0: 3})
    written(lake, table, 0, range(3))
    [address] = files(form.format(tmp_path))
    assert pq.read_table(address.removeprefix("file://")).num_rows == 3


def test_a_table_of_this_directory_needs_no_more_than_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(tmp_path, "parquet")
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(3)), {}, {0: 3})
    monkeypatch.chdir(lake.root)
    assert files("orders") == files(f"{lake.root}/orders")


def test_a_table_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no table"):
        files(str(tmp_path / "nothing"))


@pytest.mark.parametrize(("table_format", "catalog"), [("hudi", None), ("delta", "prod")])
def test_lakes_that_make_no_sense_are_refused(table_format: str, catalog: str | None) -> None:
    with pytest.raises(ConfigError):
        Lake("place", table_format, now_ms, catalog)


@pytest.mark.parametrize("there", ALL_FORMATS)
@pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections")
def test_two_formats_do_not_share_a_directory(tmp_path: Path, there: str) -> None:
    new_table(lake_of(tmp_path, there))
    for table_format in ALL_FORMATS:
        lake = lake_of(tmp_path, table_format)
        if table_format == there:
            assert new_table(lake).committed_offsets() == {}
            continue
        with pytest.raises(LakeError, match=f"already, of the format {there} and not {table_format}"):
            new_table(lake)
        assert lake.open("orders") is None
