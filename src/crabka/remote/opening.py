"""Opens a tier for tools, which have its settings but no node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.remote.backends.local import ROOT_NAME
from crabka.remote.plugins import load_storage_manager
from crabka.vfs import OsFileSystem

if TYPE_CHECKING:
    from crabka.remote.storage_manager import RemoteStorageManager

PREFIX_KEY = "remote.log.storage.manager.impl.prefix"
DEFAULT_PREFIX = "rsm.config."


def open_storage_of(settings: Mapping[str, str]) -> RemoteStorageManager:
    """Open the storage that settings of a node name; the caller closes it. Raises ConfigError.

    A directory has to be there: one that is made now looks like a tier that lost everything.
    """
    fs = OsFileSystem()
    directory = settings.get(f"{settings.get(PREFIX_KEY, DEFAULT_PREFIX)}dir")
    if directory is not None and not fs.exists(f"{directory}/{ROOT_NAME}"):
        raise ConfigError(f"{directory} is no tier: it has no directory {ROOT_NAME}")
    config, _warnings = ServerConfig.from_properties(one_node_properties("unused", "127.0.0.1", 0) | dict(settings))
    return load_storage_manager(config, fs)
