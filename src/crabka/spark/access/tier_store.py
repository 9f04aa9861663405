"""The objects of a tier for readers: ranges, whole objects and listings, by the address of the tier.

Opens nothing for writing: a directory that is not there is an error, not a new tier. A directory may be named as the
broker names it, or be the `kafka-tiered-storage` in it, or any other place with directories of partitions. The address
comes from the options or from a broker: Crabka publishes where its storage is, Apache Kafka hides it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from crabka.errors import ConfigError, OperationError
from crabka.remote.backends.store_errors import ObjectMissingError
from crabka.remote.backends.url import CLASS_NAME, SETTING_PREFIX, storage_settings_of_url, url_of_storage_settings
from crabka.remote.errors import RemoteBackendError, TruncatedObjectError
from crabka.remote.layout import parse_partition_directory
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.errors import TierElsewhereError
from crabka.vfs import OsFileSystem

_ROOT_NAME = "kafka-tiered-storage"
__all__ = ["DirectoryTierStore", "ListedObject", "ObjectMissingError", "TierStore", "open_tier_store", "present"]


class ListedObject(Protocol):
    """An object as a listing shows it. Of files, size and time are looked up when they are asked for."""

    @property
    def key(self) -> str:
        """Its name below the root of the tier."""
        ...

    @property
    def size_bytes(self) -> int:
        """Its size. Raises ObjectMissingError, RemoteBackendError."""
        ...

    @property
    def modified_ms(self) -> int:
        """When it was written. Raises ObjectMissingError, RemoteBackendError."""
        ...


class TierStore(Protocol):
    """What readers need of a store. Methods raise ObjectMissingError and RemoteBackendError."""

    @property
    def location(self) -> str:
        """The name of the tier in messages."""
        ...

    def get_range(self, key: str, span: range) -> memoryview:
        """Return a part of an object."""
        ...

    def get(self, key: str) -> bytes:
        """Return a whole object."""
        ...

    def list(self, directory: str = "") -> Iterator[ListedObject]:
        """Return the objects of a directory."""
        ...

    def directories(self) -> Iterator[str]:
        """Return the names of the top directories."""
        ...


def present(listed: Iterable[ListedObject]) -> dict[str, tuple[int, int]]:
    """Return the sizes and times of objects by their keys, without those that were deleted since they were listed."""
    found: dict[str, tuple[int, int]] = {}
    for each in listed:
        try:
            found[each.key] = each.size_bytes, each.modified_ms
        except ObjectMissingError:
            continue
    return found


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
    raise ConfigError(f"{uri} is not a readable tier")


class _ListedFile:
    """A file as it was when its size or time was first asked for."""

    __slots__ = ("_entry", "key")

    def __init__(self, key: str, entry: os.DirEntry[str]) -> None:
        self.key = key
        self._entry = entry

    @property
    def size_bytes(self) -> int:
        return self._status().st_size

    @property
    def modified_ms(self) -> int:
        return self._status().st_mtime_ns // 1_000_000

    def _status(self) -> os.stat_result:
        try:
            return self._entry.stat()
        except FileNotFoundError:
            raise ObjectMissingError(f"look at {self.key}") from None
        except OSError as error:
            raise RemoteBackendError(f"look at {self.key}: {error}") from error


class DirectoryTierStore:
    """A tier in a directory, read directly: plans of many segments read many small files."""

    def __init__(self, root: str) -> None:
        self.location = root

    def get_range(self, key: str, span: range) -> memoryview:
        """Return a part of an object. Raises TruncatedObjectError if it is shorter."""
        data = self._get(key, span)
        if len(data) != len(span):
            message = f"{key} in {self.location} has {len(data)} bytes from {span.start} on, not {len(span)}"
            raise TruncatedObjectError(message)
        return memoryview(data)

    def get(self, key: str) -> bytes:
        """Return a whole object."""
        return self._get(key, None)

    def list(self, directory: str = "") -> Iterator[ListedObject]:
        """Return the objects of a directory and below it."""
        prefix = f"{directory}/" if directory else ""
        try:
            with os.scandir(f"{self.location}/{directory}") as entries:
                found = [*entries]
        except FileNotFoundError:
            return  # deleted since
        except OSError as error:
            raise self._failed(f"list {directory}", error) from error
        for entry in found:
            if entry.is_dir():
                yield from self.list(prefix + entry.name)
            else:
                yield _ListedFile(prefix + entry.name, entry)

    def directories(self) -> Iterator[str]:
        """Return the names of the top directories."""
        try:
            with os.scandir(self.location) as entries:
                names = [entry.name for entry in entries if entry.is_dir()]
        except OSError as error:
            raise self._failed("list directories", error) from error
        return iter(names)

    def _get(self, key: str, span: range | None) -> bytes:
        try:
            descriptor = os.open(f"{self.location}/{key}", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissingError(f"read {key}") from None
        except OSError as error:
            raise self._failed(f"read {key}", error) from error
        try:
            return _read(descriptor, range(os.fstat(descriptor).st_size) if span is None else span)
        except OSError as error:
            raise self._failed(f"read {key}", error) from error
        finally:
            os.close(descriptor)

    def _failed(self, action: str, error: OSError) -> RemoteBackendError:
        return RemoteBackendError(f"{action} in {self.location}: {error}")


def _read(descriptor: int, span: range) -> bytes:
    """Return bytes of a file, fewer only at its end; large ones come in several pieces."""
    data = os.pread(descriptor, len(span), span.start)
    if len(data) in (0, len(span)):
        return data
    pieces = [data]
    position = span.start + len(data)
    while position < span.stop and (piece := os.pread(descriptor, span.stop - position, position)):
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)


def _open_directory(path: str) -> TierStore:
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
    return DirectoryTierStore(root)


def _is_partition(name: str) -> bool:
    try:
        parse_partition_directory(name)
    except ValueError:
        return False
    return True


def ask_tier_uri(session: BrokerSession) -> str | None:
    """Return the address of the tier; None if the cluster has none or does not publish it."""
    try:
        return url_of_storage_settings(session.broker_configs())
    except OperationError:
        return None  # not every client may see the configs of brokers
