"""Where a table's files are: one directory of a disk or of an object store, and how the libraries of formats find it.

Tasks write files here and the driver lists and removes them. A store can be sent to tasks: it holds an address, and
opens what it needs when it is used. Credentials come from the environment, never from the address.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from crabka.errors import ConfigError
from crabka.remote.backends.bucket import Bucket, StoredObject
from crabka.remote.backends.buckets import bucket_settings, open_bucket
from crabka.remote.backends.store_errors import ObjectMissingError
from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.local_disk import create_file, reporting_disk_errors, sync_file
from crabka.vfs import OsFileSystem

_UNSAFE = frozenset("/\\%?#")
_HEADS_AT_ONCE = 16
_SHOWN_UNSAFE = "\\, %, ? or #"


@dataclass(frozen=True)
class LakeStore:
    """The directory of one table."""

    root: str
    name: str
    _settings: tuple[str, dict[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises ConfigError for a root that is no address of a store, and for a name that is none of a directory."""
        if self.name in ("", ".", "..") or not _UNSAFE.isdisjoint(self.name):
            raise ConfigError(f"{self.name!r} is not a name for a table: it must not hold / or {_SHOWN_UNSAFE}")
        address, question, parameters = self.root.partition("?")
        if question and "://" not in self.root:
            raise ConfigError(f"The directory {self.root} cannot have tables: ? has a meaning in addresses of tables")
        settings = bucket_settings(f"{address.rstrip('/')}/{self.name}{question}{parameters}")
        object.__setattr__(self, "_settings", settings)
        place = self.local_directory or settings[1].get("prefix", "")
        if not _UNSAFE.isdisjoint(place.replace("/", "")):
            # Libraries of tables decode addresses, or do not, each in its own way.
            raise ConfigError(f"{self.root} cannot have tables: their addresses must not hold {_SHOWN_UNSAFE}")

    def __getstate__(self) -> dict[str, object]:
        return {"root": self.root, "name": self.name, "_settings": self._settings}

    @property
    def local_directory(self) -> str | None:
        """The table's directory if it is on a disk of this machine."""
        kind, settings = self._settings
        return os.path.abspath(settings["dir"]) if kind == "local" else None

    @property
    def url(self) -> str:
        """The table's address as Delta, Iceberg and Arrow write it."""
        if self.local_directory is not None:
            return f"file://{self.local_directory}"
        kind, settings = self._settings
        scheme = {"s3": "s3", "gcs": "gs", "azure": "abfss"}[kind]
        host = (
            settings["bucket"]
            if kind != "azure"
            else f"{settings['container']}@{settings['account']}.dfs.core.windows.net"
        )
        return f"{scheme}://{posixpath.join(host, settings.get('prefix', ''))}".rstrip("/")

    @property
    def delta_options(self) -> dict[str, str]:
        """Options by which deltalake reaches the store."""
        kind, settings = self._settings
        if kind != "s3":
            return {}
        options = {"aws_virtual_hosted_style_request": settings.get("virtual.hosted.style", "false")}
        if "endpoint" in settings:
            options |= {"aws_endpoint": settings["endpoint"]}
            if settings["endpoint"].startswith("http://"):
                options["aws_allow_http"] = "true"
        if "region" in settings:
            options["aws_region"] = settings["region"]
        return options

    @cached_property
    def bucket(self) -> Bucket:
        """The objects of the table."""
        kind, settings = self._settings
        return open_bucket(kind, settings, OsFileSystem())

    def relative(self, location: str) -> str:
        """Return the path below the table of a file that a library names by its whole address.

        Raises LakeError for a file outside. Links are resolved: a directory may have several names.
        """
        for prefix in (self.url, self.local_directory):
            if prefix is not None and location.startswith(prefix + "/"):
                return location[len(prefix) + 1 :]
        if self.local_directory is not None and location.startswith(("file://", "/")):
            whole, above = (os.path.realpath(place.removeprefix("file://")) for place in (location, self.url))
            if whole.startswith(above + "/"):
                return whole[len(above) + 1 :]
        raise LakeError(f"{location} is not below the table {self.url}")

    def is_at(self, location: str) -> bool:
        """Return whether an address names this directory; links are resolved."""
        if self.local_directory is not None and location.startswith("file:"):
            return os.path.realpath(location.removeprefix("file:")) == os.path.realpath(self.local_directory)
        scheme, colon, place = location.rstrip("/").partition(":")
        return self.url == ("s3" if scheme in ("s3a", "s3n") else scheme) + colon + place

    def absolute(self, path: str) -> str:
        """Return the whole address of a file of the table."""
        return f"{self.url}/{path}"

    def list_files(self, directory: str = "") -> Iterator[StoredObject]:
        """Return what is stored, with size and age."""
        return self.bucket.list(directory)

    def require(self, paths: Sequence[str]) -> None:
        """Raise LakeError unless all these files are there: a commit must not name files that a vacuum removed."""
        if self.local_directory is not None:
            found = [os.path.exists(os.path.join(self.local_directory, path)) for path in paths]
        else:
            bucket = self.bucket
            with ThreadPoolExecutor(_HEADS_AT_ONCE) as pool:
                found = list(pool.map(lambda path: _is_stored(bucket, path), paths))
        missing = [path for path, is_there in zip(paths, found, strict=True) if not is_there]
        if missing:
            raise LakeError(
                f"{self.absolute(missing[0])} was removed before it was committed: is the grace of a vacuum too short?"
            )

    def delete(self, paths: Sequence[str]) -> None:
        """Remove files; those that are gone already are fine."""
        self.bucket.delete(paths)

    def put_new(self, path: str, data: bytes) -> bool:
        """Store a small file unless there is one, durably; return whether it was stored. Raises LakeError."""
        if self.local_directory is None:
            return self.bucket.put_new(path, data)
        with reporting_disk_errors(f"{self.absolute(path)} cannot be written"):
            return create_file(self.local_directory, path, data)

    def sync(self, path: str) -> None:
        """Make a file durable that was written in place. Raises LakeError."""
        if self.local_directory is None:
            return
        with reporting_disk_errors(f"{self.absolute(path)} cannot be brought to the disk"):
            sync_file(self.local_directory, path)

    def upload(self, local_path: str, path: str) -> None:
        """Store a local file."""
        file = OsFileSystem().open(local_path)
        try:
            self.bucket.put_file(path, file)
        finally:
            file.close()


def _is_stored(bucket: Bucket, path: str) -> bool:
    try:
        bucket.size(path)
    except ObjectMissingError:
        return False
    return True
