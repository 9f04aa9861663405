"""The tier of a command: an address, or the server.properties of a broker.

Brokers do not publish it: their storage settings are `rsm.config.*`, which DescribeConfigs keeps secret.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crabka.clients.admin.admin_types import ConfigOwner, ResourceType
from crabka.config.properties import parse_properties
from crabka.errors import ConfigError
from crabka.remote.backends.url import CLASS_NAME, storage_settings_of_url
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


async def explain_missing_storage(admin: Admin) -> ConfigError:
    """Return the error for a command without a storage: it says which option to pass."""
    cluster = await admin.cluster.describe()
    owner = ConfigOwner(ResourceType.BROKER, str(cluster.brokers[0].node_id))
    found = (await admin.describe_configs(owner, [CLASS_NAME])).get(CLASS_NAME)
    if found is None or found.value is None:
        return ConfigError("the brokers have no remote storage; to check a tier anyway, pass --tier URL")
    return ConfigError(
        f"the brokers use the storage {found.value}, but do not publish its address: "
        "pass --tier URL (file:///directory, s3://bucket/prefix) or --config server.properties"
    )


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
