from __future__ import annotations

import threading
from pathlib import Path

import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.iceberg_catalog import CATALOG_FILE, open_catalog
from crabka.spark.lake.formats.store import LakeStore

pytestmark = pytest.mark.allow_leaks(reason="pyiceberg keeps threads and connections")


def test_the_catalog_is_beside_the_tables(tmp_path: Path) -> None:
    catalog = open_catalog(LakeStore(str(tmp_path / "lake"), "orders"), None)
    catalog.create_namespace("n")
    assert (tmp_path / "lake" / CATALOG_FILE).exists()
    assert open_catalog(LakeStore(str(tmp_path / "lake"), "other"), None).list_namespaces() == [("n",)]


def test_many_open_a_new_catalog_at_once(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def act() -> None:
        try:
            open_catalog(LakeStore(str(tmp_path), "orders"), None).list_namespaces()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_an_object_store_needs_a_catalog_of_its_own() -> None:
    with pytest.raises(LakeError, match="--catalog"):
        open_catalog(LakeStore("s3://bucket/prefix", "orders"), None)


def test_a_catalog_that_is_not_configured_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="nowhere"):
        open_catalog(LakeStore(str(tmp_path), "orders"), "nowhere")
