from __future__ import annotations

from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.buckets import bucket_settings, open_bucket
from crabka.vfs import OsFileSystem


def test_a_directory_is_made_and_used(tmp_path: Path) -> None:
    bucket = open_bucket(*bucket_settings(f"file://{tmp_path}/new/one"), OsFileSystem())
    bucket.put("a/b", b"content")
    assert (tmp_path / "new" / "one" / "a" / "b").read_bytes() == b"content"
    assert [found.key for found in bucket.list()] == ["a/b"]


def test_a_path_without_a_scheme_is_a_directory(tmp_path: Path) -> None:
    assert bucket_settings(str(tmp_path)) == ("local", {"dir": str(tmp_path)})


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("s3://lake/deep/down?region=eu-west-1", "s3://lake/deep/down"),
        ("gs://lake/deep", "gs://lake/deep"),
        ("az://account/lake/deep", "az://account/lake/deep"),
    ],
)
def test_an_address_names_a_bucket_and_a_prefix(url: str, location: str) -> None:
    assert open_bucket(*bucket_settings(url), OsFileSystem()).location.endswith(location.partition("://")[2])


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be used"):
        open_bucket("local", {"dir": str(tmp_path / "file")}, OsFileSystem())
