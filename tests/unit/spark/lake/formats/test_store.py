from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from crabka.errors import ConfigError
from crabka.remote.backends.bucket import Bucket
from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.store import LakeStore
from tests.support.tiers import object_stores as _started  # noqa: F401 - before any test takes stock of descriptors


@pytest.mark.parametrize("form", ["{}", "{}/", "file://{}", "file://{}/"])
def test_a_table_is_a_directory_below_the_root(tmp_path: Path, form: str) -> None:
    store = LakeStore(form.format(tmp_path), "orders")
    assert store.local_directory == str(tmp_path / "orders")
    assert store.url == f"file://{tmp_path}/orders"
    assert store.absolute("a/b") == f"file://{tmp_path}/orders/a/b"
    for location in (store.absolute("a/b"), str(tmp_path / "orders" / "a" / "b")):
        assert store.relative(location) == "a/b"


def test_a_directory_may_be_reached_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "lake" / "orders").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    store, linked = LakeStore(str(tmp_path / "lake"), "orders"), LakeStore(str(tmp_path / "link"), "orders")
    assert store.relative(linked.absolute("a/b")) == linked.relative(store.absolute("a/b")) == "a/b"
    assert store.is_at(linked.url)
    assert linked.is_at(f"{store.url}/")
    assert not store.is_at(f"file://{tmp_path}/lake")


@pytest.mark.parametrize("elsewhere", ["a/b", "/elsewhere/orders/a", "file:///elsewhere/a", "s3://bucket/orders/a"])
def test_a_file_that_is_not_below_the_table_is_reported(tmp_path: Path, elsewhere: str) -> None:
    with pytest.raises(LakeError, match="not below"):
        LakeStore(str(tmp_path), "orders").relative(elsewhere)


def test_a_bucket_is_the_same_whatever_the_scheme_is_called() -> None:
    store = LakeStore("s3a://bucket/deep", "orders")
    for location in ("s3://bucket/deep/orders", "s3a://bucket/deep/orders/", "s3n://bucket/deep/orders"):
        assert store.is_at(location)
    assert not store.is_at("gs://bucket/deep/orders")
    with pytest.raises(LakeError, match="not below"):
        store.relative("s3://bucket/deep/other/a")


def test_a_bucket_is_reached_by_each_library_in_its_own_way() -> None:
    store = LakeStore("s3://bucket/deep?endpoint=http://127.0.0.1:9000&region=eu-west-1&allow.http=true", "orders")
    assert store.local_directory is None
    assert store.url == "s3://bucket/deep/orders"
    assert store.delta_options == {
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_allow_http": "true",
        "aws_region": "eu-west-1",
        "aws_virtual_hosted_style_request": "false",
    }
    assert store.bucket.location == "s3://bucket/deep/orders"


def test_other_clouds_have_addresses_too() -> None:
    assert LakeStore("gs://bucket/deep", "t").url == "gs://bucket/deep/t"
    assert LakeStore("az://account/container/deep", "t").url == "abfss://container@account.dfs.core.windows.net/deep/t"


def test_a_store_goes_to_tasks(tmp_path: Path) -> None:
    store = LakeStore(str(tmp_path), "orders")
    store.bucket.put("a", b"content")
    sent = pickle.loads(pickle.dumps(store))  # noqa: S301 - as it goes to tasks
    assert sent == store
    assert sent.bucket.get("a") == b"content"


def test_files_are_uploaded_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(b"content")
    store = LakeStore(str(tmp_path / "lake"), "orders")
    store.upload(str(tmp_path / "local"), "d/a")
    assert [(found.key, found.size_bytes) for found in store.list_files()] == [("d/a", 7)]
    store.delete(["d/a", "d/b"])
    assert list(store.list_files()) == []


@pytest.mark.parametrize(
    "root", ["ftp://host/path", "/data/a%20b", "/data/a#b", "a?b", "file:///a%2520b", "s3://b/a%23"]
)
def test_an_address_that_is_none_of_tables_is_refused(root: str) -> None:
    with pytest.raises(ConfigError):
        LakeStore(root, "orders")


def test_an_address_may_be_encoded(tmp_path: Path) -> None:
    assert LakeStore(f"file://{tmp_path}/my%20lake", "orders").local_directory == f"{tmp_path}/my lake/orders"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "../a", "a?b", "a%2fb", "a\\b"])
def test_a_name_that_is_none_of_a_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="not a name for a table"):
        LakeStore(str(tmp_path), name)


def test_files_that_are_gone_are_reported(tmp_path: Path) -> None:
    store = LakeStore(str(tmp_path), "orders")
    store.bucket.put("d/a", b"content")
    store.require([])
    store.require(["d/a"])
    with pytest.raises(LakeError, match="d/b was removed before it was committed"):
        store.require(["d/a", "d/b"])


def test_files_of_an_object_store_that_are_gone_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    store, bucket = LakeStore("s3://bucket/deep", "orders"), Bucket(MemoryStore(), location="s3://bucket/deep/orders")
    monkeypatch.setitem(store.__dict__, "bucket", bucket)
    bucket.put("d/a", b"content")
    store.require(["d/a"])
    with pytest.raises(LakeError, match="s3://bucket/deep/orders/d/b was removed before it was committed"):
        store.require(["d/a", "d/b"])
