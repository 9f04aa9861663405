from __future__ import annotations

from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.url import storage_settings_of_url, url_of_storage_settings
from crabka.remote.errors import RemoteBackendError, TruncatedObjectError
from crabka.spark.access.tier_store import ObjectMissingError, open_tier_store, present
from tests.support.tiers.planted import two_segments
from tests.support.tiers.stores import write_tier


def test_a_directory_is_found_by_any_of_its_names(tmp_path: Path) -> None:
    write_tier(two_segments(), tmp_path)
    expected = {found.key for found in open_tier_store(f"file://{tmp_path}", {}).list()}
    assert len(expected) == 10
    for place in (str(tmp_path), f"file://{tmp_path}/kafka-tiered-storage"):
        assert {found.key for found in open_tier_store(place, {}).list()} == expected
    (tmp_path / "kafka-tiered-storage").rename(tmp_path / "moved")
    assert {found.key for found in open_tier_store(f"file://{tmp_path}/moved", {}).list()} == expected


def test_ranges_and_missing_objects(tmp_path: Path) -> None:
    write_tier(two_segments(), tmp_path)
    store = open_tier_store(f"file://{tmp_path}", {})
    key = next(found.key for found in store.list() if found.key.endswith(".log"))
    assert bytes(store.get_range(key, range(5, 9))) == store.get(key)[5:9]
    with pytest.raises(ObjectMissingError):
        store.get("nothing/here")


def test_what_is_no_tier_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the directory does not exist"):
        open_tier_store(f"file://{tmp_path}/none", {})
    assert not (tmp_path / "none").exists()
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(ConfigError, match="neither kafka-tiered-storage nor directories of partitions"):
        open_tier_store(f"file://{tmp_path}", {})
    with pytest.raises(ConfigError, match="is no storage"):
        open_tier_store("ftp://x/y", {})


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://bucket/prefix?region=eu-central-1", "s3://bucket/prefix"),
        ("gs://bucket/prefix", "gs://bucket/prefix"),
        ("az://account/container/prefix", "az://account/container/prefix"),
    ],
)
def test_buckets_are_opened_without_being_asked(uri: str, location: str) -> None:
    settings = {"account.key": "a2V5"} if uri.startswith("az") else {}
    assert open_tier_store(uri, settings).location == location


def test_a_directory_is_listed_with_sizes_and_ages(tmp_path: Path) -> None:
    write_tier(two_segments(), tmp_path)
    root = tmp_path / "kafka-tiered-storage"
    store = open_tier_store(f"file://{tmp_path}", {})
    (directory,) = store.directories()
    found = {each.key: each for each in store.list(directory)}
    assert set(found) == {f"{directory}/{path.name}" for path in (root / directory).iterdir()}
    for key, each in found.items():
        status = (root / key).stat()
        assert (each.size_bytes, each.modified_ms) == (status.st_size, status.st_mtime_ns // 1_000_000)
    assert list(store.list("gone")) == []


def test_a_range_beyond_the_end_is_refused(tmp_path: Path) -> None:
    write_tier(two_segments(), tmp_path)
    store = open_tier_store(f"file://{tmp_path}", {})
    key = next(found.key for found in store.list() if found.key.endswith(".log"))
    size = len(store.get(key))
    with pytest.raises(TruncatedObjectError, match="bytes from"):
        store.get_range(key, range(size - 4, size + 1))
    assert bytes(store.get_range(key, range(size, size))) == b""
    with pytest.raises(ObjectMissingError):
        store.get_range(f"{key}/below", range(5))


def test_what_the_disk_refuses_is_an_error_of_the_tier(tmp_path: Path) -> None:
    write_tier(two_segments(), tmp_path)
    store = open_tier_store(f"file://{tmp_path}", {})
    (directory,) = store.directories()
    with pytest.raises(RemoteBackendError, match="Is a directory"):
        store.get(directory)
    file = next(found.key for found in store.list())
    with pytest.raises(RemoteBackendError, match="Not a directory"):
        list(store.list(file))


def test_sizes_are_asked_for_when_they_are_needed(tmp_path: Path) -> None:
    write_tier(two_segments(), tmp_path)
    store = open_tier_store(f"file://{tmp_path}", {})
    first, *others = store.list()
    (tmp_path / "kafka-tiered-storage" / first.key).unlink()
    with pytest.raises(ObjectMissingError):
        _ = first.size_bytes
    assert set(present([first, *others])) == {each.key for each in others}


@pytest.mark.parametrize(
    "uri",
    [
        "file:///cold/tier",
        "s3://bucket/my/prefix?endpoint=http%3A%2F%2Fhost%3A9000&region=x&allow.http=true",
        "s3://bucket",
        "gs://bucket/prefix",
        "az://account/container/prefix",
    ],
)
def test_settings_of_a_broker_are_the_address_again(uri: str) -> None:
    settings: dict[str, str | None] = dict(storage_settings_of_url(uri))
    found = url_of_storage_settings(settings)
    assert found is not None
    assert storage_settings_of_url(found) == settings


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"remote.log.storage.manager.class.name": "local", "rsm.config.dir": None},
        {"remote.log.storage.manager.class.name": "s3"},
        {"remote.log.storage.manager.class.name": "my.module:Storage", "rsm.config.bucket": "x"},
    ],
)
def test_what_is_hidden_or_foreign_is_no_address(configs: dict[str, str | None]) -> None:
    assert url_of_storage_settings(configs) is None


def test_kafkas_class_of_a_directory_is_known() -> None:
    name = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    configs: dict[str, str | None] = {"remote.log.storage.manager.class.name": name, "rsm.config.dir": "/cold"}
    assert url_of_storage_settings(configs) == "file:///cold"
