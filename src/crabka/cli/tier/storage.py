"""The tier of a command: an address, the server.properties of a broker, or what the brokers publish.

Crabka publishes where its storage is, but for secrets; Apache Kafka hides the settings of storages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crabka.clients.admin.admin_types import ConfigOwner, ResourceType
from crabka.config.properties import parse_properties
from crabka.errors import ConfigError
from crabka.remote.backends.url import CLASS_NAME, storage_settings_of_url, url_of_storage_settings
from crabka.remote.opening import DEFAULT_PREFIX, PREFIX_KEY, open_storage_of

if TYPE_CHECKING:
    from crabka.clients.admin.admin import Admin
    from crabka.remote.storage_manager import RemoteStorageManager


def open_storage(tier: str | None, config_file: str | None) -> RemoteStorageManager | None:
    """Open the storage of --tier or --config, None without both. Raises ConfigError."""
    if tier is not None and config_file is not None:
        raise ConfigError("--tier and --config exclude each other")
    if tier is not None:
        return open_storage_of(storage_settings_of_url(tier))
    return None if config_file is None else open_storage_of(_settings_in(config_file))


async def published_tier(admin: Admin) -> str:
    """Return the address of the tier that the brokers use. Raises ConfigError, which says which option to pass."""
    cluster = await admin.cluster.describe()
    owner = ConfigOwner(ResourceType.BROKER, str(cluster.brokers[0].node_id))
    configs = {name: each.value for name, each in (await admin.describe_configs(owner)).items()}
    kind = configs.get(CLASS_NAME)
    if kind is None:
        raise ConfigError("the brokers have no remote storage; to check a tier anyway, pass --tier URL")
    address = url_of_storage_settings(configs)
    if address is None:
        raise ConfigError(
            f"the brokers use the storage {kind}, but do not publish its address: "
            "pass --tier URL (file:///directory, s3://bucket/prefix) or --config server.properties"
        )
    return address


async def open_published_storage(admin: Admin) -> RemoteStorageManager:
    """Open the storage that the brokers use. Raises ConfigError."""
    address = await published_tier(admin)
    try:
        return open_storage_of(storage_settings_of_url(address))
    except ConfigError as error:
        raise ConfigError(
            f"the brokers use the tier {address}, which does not open here: {error}; pass --tier URL"
        ) from error


def _settings_in(path: str) -> dict[str, str]:
    """Return the storage settings of a server.properties file; other settings are ignored."""
    try:
        given = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if CLASS_NAME not in given:
        raise ConfigError(f"{path} has no {CLASS_NAME}")
    prefix = given.get(PREFIX_KEY, DEFAULT_PREFIX)
    return {name: value for name, value in given.items() if name in (CLASS_NAME, PREFIX_KEY) or name.startswith(prefix)}
