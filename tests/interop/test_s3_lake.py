"""Tables in a bucket of a real S3 server: commits, races, compaction and vacuum as on a disk."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

from crabka.spark.lake.errors import CommitConflictError
from crabka.spark.lake.formats.tables import Lake, files
from crabka.spark.lake.maintenance.compaction import compact_once, compact_table
from crabka.spark.lake.syncing.settings import SyncSettings
from crabka.spark.lake.syncing.topic_sync import TopicSync
from crabka.spark.lake.values.json_values import JsonValues
from tests.support.spark.lake_reader import ICEBERG_CATALOG, table_places
from tests.support.spark.lake_tables import ALL_FORMATS, new_table, now_ms, written
from tests.support.spark.lake_topic import InlineRunner, ListTopic
from tests.support.tiers.versitygw import ACCESS_KEY, BUCKET, SECRET_KEY, VersityGateway

SETTINGS = SyncSettings(decoder=JsonValues((), infers=True), round_bytes=1)
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path_factory.mktemp("lake-s3")) as running:
        yield running


@pytest.fixture(params=ALL_FORMATS)
def lake(
    gateway: VersityGateway, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Lake:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    directory = f"{request.param}-{tmp_path.name}"
    root = f"s3://{BUCKET}/{directory}?endpoint={gateway.endpoint}&region=us-east-1&allow.http=true"
    if request.param != "iceberg":
        return Lake(root, request.param, now_ms)
    (gateway.bucket_dir / directory).mkdir()
    configure_catalog(monkeypatch, gateway, gateway.bucket_dir / directory / ICEBERG_CATALOG)
    return Lake(root, request.param, now_ms, catalog="lakehouse")


def configure_catalog(monkeypatch: pytest.MonkeyPatch, gateway: VersityGateway, path: Path) -> None:
    """Configure pyiceberg as a user does, by its variables in the environment."""
    properties = {"TYPE": "sql", "URI": f"sqlite:///{path}?timeout=60"}
    properties |= {"S3__ENDPOINT": gateway.endpoint, "S3__REGION": "us-east-1"}
    for name, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKEHOUSE__{name}", value)
    # It is read once, with the first import.
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())


def places(gateway: VersityGateway, lake: Lake, name: str) -> list[tuple[int, int]]:
    directory = lake.root.partition("?")[0].rpartition("/")[2]
    return table_places(gateway.bucket_dir / directory, name, lake.table_format)


def test_two_syncs_at_once_bring_every_row_once(gateway: VersityGateway, lake: Lake) -> None:
    values = [b"{" if number % 5 == 4 else json.dumps({"id": number}).encode() for number in range(15)]
    topic, errors = ListTopic([values, values]), list[BaseException]()

    def bring() -> None:
        sync = TopicSync(lake, topic, InlineRunner(), SETTINGS, topic="orders")
        try:
            while sync.run_round() is not None:
                pass
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    threads = [threading.Thread(target=bring) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    every = [(partition, offset) for partition in range(2) for offset in range(15)]
    assert places(gateway, lake, "orders") == [place for place in every if place[1] % 5 != 4]
    assert places(gateway, lake, "orders_dlq") == [place for place in every if place[1] % 5 == 4]


def test_compaction_and_vacuum_leave_the_rows(gateway: VersityGateway, lake: Lake) -> None:
    table = new_table(lake)
    for start in (0, 5):
        table.commit(written(lake, table, 0, range(start, start + 5)), {0: start} if start else {}, {0: start + 5})
        table.refresh()
    stale = lake.open("orders")
    assert stale is not None
    assert compact_once(table, 1 << 20).files_removed == 2
    with pytest.raises(CommitConflictError):
        compact_table(stale, 1 << 20)
    removed = table.vacuum(0, now_ms() + HOUR_MS).removed
    assert len([path for path in removed if path.endswith(".parquet")]) == 3
    assert places(gateway, lake, "orders") == [(0, offset) for offset in range(10)]


@pytest.mark.parametrize("lake", ["parquet"], indirect=True)
def test_readers_find_the_files_of_parquet_tables(lake: Lake) -> None:
    table = new_table(lake)
    table.commit(written(lake, table, 0, range(5)), {}, {0: 5})
    place, _, parameters = lake.root.partition("?")
    [address] = files(f"{place}/orders?{parameters}")
    assert address.startswith(f"{place}/orders/part-00000-")
