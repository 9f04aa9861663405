"""Buckets by address, for data other than segments in an object store."""

from __future__ import annotations

from collections.abc import Mapping

from obstore.exceptions import BaseError
from obstore.store import LocalStore

from crabka.errors import ConfigError
from crabka.ports import FileSystem
from crabka.remote.backends.azure import AzureConfig
from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.gcs import GcsConfig
from crabka.remote.backends.s3 import S3Config
from crabka.remote.backends.url import CLASS_NAME, SETTING_PREFIX, storage_settings_of_url


def bucket_settings(url: str) -> tuple[str, dict[str, str]]:
    """Return the kind of the store at an address (local, s3, gcs, azure) and its settings. Raises ConfigError."""
    settings = storage_settings_of_url(url)
    kind = settings.pop(CLASS_NAME)
    return kind, {name.removeprefix(SETTING_PREFIX): value for name, value in settings.items()}


def open_bucket(kind: str, settings: Mapping[str, str], fs: FileSystem) -> Bucket:
    """Return the bucket that `bucket_settings` describes; a directory is made if need be. Raises ConfigError."""
    match kind:
        case "s3":
            return S3Config.from_settings(settings, fs).open()
        case "gcs":
            return GcsConfig.from_settings(settings, fs).open()
        case "azure":
            return AzureConfig.from_settings(settings, fs).open()
    directory = settings["dir"]
    try:
        store = LocalStore(directory, mkdir=True)
    except (BaseError, OSError, ValueError) as error:
        raise ConfigError(f"The directory {directory} cannot be used: {error}") from None
    return Bucket(store, location=directory)
