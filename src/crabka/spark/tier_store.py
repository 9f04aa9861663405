"""The objects of a tier for readers: ranges, whole objects and listings, by the address of the tier.

Opens nothing for writing: a directory that is not there is an error, not a new tier. A directory may be named as the
broker names it, or be the `kafka-tiered-storage` in it, or any other place with directories of partitions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Protocol

from crabka.errors import ConfigError
from crabka.remote.backends.bucket import Bucket, StoredObject
from crabka.remote.backends.store_errors import ObjectMissingError
from crabka.remote.backends.url import CLASS_NAME, SETTING_PREFIX, storage_settings_of_url
from crabka.remote.layout import parse_partition_directory
from crabka.spark.errors import TierElsewhereError
from crabka.vfs import OsFileSystem

_ROOT_NAME = "kafka-tiered-storage"

__all__ = ["ObjectMissingError", "StoredObject", "TierStore", "open_tier_store"]


class TierStore(Protocol):
    """What readers need of a store. Methods raise ObjectMissingError and RemoteBackendError."""

    @property
    def location(self) -> str:
        """How messages call the tier."""
        ...

    def get_range(self, key: str, span: range) -> memoryview:
        """Return a part of an object."""
        ...

    def get(self, key: str) -> bytes:
        """Return a whole object."""
        ...

    def list(self, directory: str = "") -> Iterator[StoredObject]:
        """Return the objects of a directory."""
        ...

    def directories(self) -> Iterator[str]:
        """Return the names of the top directories."""
        ...


def open_tier_store(uri: str, settings: Mapping[str, str]) -> TierStore:
    """Return the store at an address; `settings` are further ones of the storage, such as keys. Raises ConfigError."""
    named = storage_settings_of_url(uri)
    kind = named.pop(CLASS_NAME)
    given = {name.removeprefix(SETTING_PREFIX): value for name, value in named.items()} | dict(settings)
    match kind:
        case "local":
            return _open_directory(given["dir"])
        case "s3":
            from crabka.remote.backends.s3 import S3Config

            return S3Config.from_settings(given, OsFileSystem()).open()
        case "gcs":
            from crabka.remote.backends.gcs import GcsConfig

            return GcsConfig.from_settings(given, OsFileSystem()).open()
        case "azure":
            from crabka.remote.backends.azure import AzureConfig

            return AzureConfig.from_settings(given, OsFileSystem()).open()
    raise ConfigError(f"{uri} is no tier that can be read")


def _open_directory(path: str) -> TierStore:
    from obstore.store import LocalStore

    root = os.path.join(path, _ROOT_NAME)
    if not os.path.isdir(root):
        root = path
    if not os.path.isdir(root):
        raise TierElsewhereError(f"there is no tier at {path}: the directory does not exist")
    names = os.listdir(root)
    if names and os.path.basename(root) != _ROOT_NAME and not any(_is_partition(name) for name in names):
        raise TierElsewhereError(
            f"there is no tier at {path}: it has neither {_ROOT_NAME} nor directories of partitions"
        )
    return Bucket(LocalStore(root), location=root)


def _is_partition(name: str) -> bool:
    try:
        parse_partition_directory(name)
    except ValueError:
        return False
    return True
