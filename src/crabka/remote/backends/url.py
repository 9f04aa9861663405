"""Settings of a node's storage from one address: `s3://bucket/prefix?endpoint=...`, `file:///directory` and the like.

Secrets have no place in an address, which shows in lists of processes and in histories of shells: they come from the
environment or from a properties file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from crabka.config.java_classes import LOCAL_TIERED_STORAGE
from crabka.config.keys import REQUIRED, ConfigKey
from crabka.errors import ConfigError
from crabka.remote.backends.azure import AZURE_KEYS
from crabka.remote.backends.gcs import GCS_KEYS
from crabka.remote.backends.local import LOCAL_KEYS
from crabka.remote.backends.s3 import S3_KEYS

CLASS_NAME = "remote.log.storage.manager.class.name"
SETTING_PREFIX = "rsm.config."
_DIRECTORY_KINDS: Final = ("local", "file", LOCAL_TIERED_STORAGE)
_PASSED_ON: Final[tuple[str, ...]] = ("endpoint", "region", "allow.http", "virtual.hosted.style")


def storage_settings_of_url(url: str) -> dict[str, str]:
    """Return the node's settings for the storage at an address; a path without a scheme is a directory.

    Parameters of the address are settings of the storage, such as `endpoint` and `region`. Raises ConfigError.
    """
    if "://" not in url:
        return _settings("local", LOCAL_KEYS, {"dir": url}, [])
    parts = urlsplit(url)
    path = unquote(parts.path).strip("/")
    given = parse_qsl(parts.query, keep_blank_values=True)
    _refuse_extras(parts)
    match parts.scheme:
        case "file":
            if parts.netloc not in ("", "localhost"):
                raise ConfigError(f"{_shown(parts)} names another machine; a directory is file:///directory")
            return _settings("local", LOCAL_KEYS, {"dir": unquote(parts.path)}, given)
        case "s3" | "s3a":
            return _settings("s3", S3_KEYS, {"bucket": parts.netloc, "prefix": path}, given)
        case "gs":
            return _settings("gcs", GCS_KEYS, {"bucket": parts.netloc, "prefix": path}, given)
        case "az" | "azure":
            container, _, prefix = path.partition("/")
            named = {"account": parts.netloc, "container": container, "prefix": prefix}
            return _settings("azure", AZURE_KEYS, named, given)
    raise ConfigError(f"{_shown(parts)} is no storage: use file:///directory, s3://bucket/prefix, gs:// or az://")


def url_of_storage_settings(configs: Mapping[str, str | None]) -> str | None:
    """Return the address of the storage in the settings that a broker publishes; None if they are not sufficient."""
    kind = configs.get(CLASS_NAME)
    found = {
        name.removeprefix(SETTING_PREFIX): value
        for name, value in configs.items()
        if name.startswith(SETTING_PREFIX) and value
    }
    if kind in _DIRECTORY_KINDS and "dir" in found:
        return f"file://{quote(found['dir'])}"
    query = urlencode({name: found[name] for name in _PASSED_ON if name in found})
    path = "/".join(part for part in (found.get("prefix", "").strip("/"),) if part)
    match kind:
        case "s3" | "gcs" if "bucket" in found:
            address = f"{'s3' if kind == 's3' else 'gs'}://{found['bucket']}/{quote(path)}"
        case "azure" if "account" in found and "container" in found:
            address = f"az://{found['account']}/{found['container']}/{quote(path)}"
        case _:
            return None
    return f"{address.rstrip('/')}?{query}" if query else address.rstrip("/")


def _settings(
    kind: str, keys: Iterable[ConfigKey], named: dict[str, str], given: list[tuple[str, str]]
) -> dict[str, str]:
    known = {key.name: key for key in keys}
    for name, value in given:
        key = known.get(name)
        if key is None or name in named:
            raise ConfigError(f"{name} is no parameter of the address of a {kind} storage")
        if key.sensitive:
            raise ConfigError(f"{name} must not stand in an address; use the environment or {SETTING_PREFIX}{name}")
        key.parse(value)
        named[name] = value
    for name, value in named.items():
        if not value and known[name].default is REQUIRED:
            raise ConfigError(f"The address of a {kind} storage lacks the {name}")
    return {CLASS_NAME: kind} | {SETTING_PREFIX + name: value for name, value in named.items() if value}


def _refuse_extras(parts: SplitResult) -> None:
    if "@" in parts.netloc:
        raise ConfigError("The address of a storage must not hold credentials")
    if parts.fragment:
        raise ConfigError(f"{_shown(parts)} has a part after #, which has no meaning")


def _shown(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
