"""The storage of the remote tier as a node's settings name it (KIP-405).

`remote.log.storage.manager.class.name` is a short name, the Java class that Kafka's own directory tier has, or a class
of a third party as `package.module:Class`. Such a class is a `RemoteStorageManager` that is made without arguments and
then configured. Modules are imported on demand, so that a node without a tier needs no libraries of object stores.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from crabka.config.java_classes import LOCAL_TIERED_STORAGE
from crabka.errors import ConfigError
from crabka.remote.storage_manager import RemoteStorageManager

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from crabka.config.server import ServerConfig
    from crabka.ports import FileSystem

_KEY = "remote.log.storage.manager.class.name"

_BACKENDS = "crabka.remote.backends"
BUILT_IN_STORAGES: Mapping[str, str] = {
    LOCAL_TIERED_STORAGE: f"{_BACKENDS}.local:LocalTieredStorage",
    "local": f"{_BACKENDS}.local:LocalTieredStorage",
    "file": f"{_BACKENDS}.file:file_storage",
    "s3": f"{_BACKENDS}.s3:s3_storage",
    "gcs": f"{_BACKENDS}.gcs:gcs_storage",
    "azure": f"{_BACKENDS}.azure:azure_storage",
}
"""The storages of Crabka: what makes one with the file system of the node."""


def load_storage_manager(config: ServerConfig, fs: FileSystem) -> RemoteStorageManager:
    """Make and configure the storage that the settings of a node name. The caller closes it.

    Raises ConfigError that says what is wrong with the name, the class or its settings.
    """
    name = config.remote_log_storage_manager_class_name
    if name is None:
        raise ConfigError(f"{_KEY} must name the storage of the remote tier")
    storage = _make(name, fs)
    prefix = config.remote_log_storage_manager_impl_prefix
    try:
        storage.configure(config.prefixed(prefix))
    except ConfigError as error:
        raise ConfigError(f"{name}, settings {prefix}*: {error}") from error
    except Exception as error:
        raise ConfigError(f"{name} cannot be configured by {prefix}*: {_text_of(error)}") from error
    return storage


def _make(name: str, fs: FileSystem) -> RemoteStorageManager:
    built_in = BUILT_IN_STORAGES.get(name)
    try:
        if built_in is None:
            return _class_of(name)()
        module_name, _colon, maker = built_in.partition(":")
        make: Callable[[FileSystem], RemoteStorageManager] = getattr(_import(name, module_name), maker)
        return make(fs)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{_KEY}: {name} cannot be made: {_text_of(error)}") from error


def _import(name: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"{_KEY}: {name} needs the module {module_name}: {error}") from error


def _class_of(name: str) -> type[RemoteStorageManager]:
    """Import a class. Raises ConfigError if it is missing, no storage, or incomplete."""
    module_name, _colon, class_name = name.partition(":")
    found = getattr(_import(name, module_name), class_name, None)
    if not isinstance(found, type):
        raise ConfigError(f"{_KEY}: {name}: the module {module_name} has no class {class_name!r}")
    if not issubclass(found, RemoteStorageManager):
        raise ConfigError(f"{_KEY}: {name} is no {RemoteStorageManager.__name__} of crabka.remote.storage_manager")
    if found.__abstractmethods__:
        raise ConfigError(f"{_KEY}: {name} lacks {', '.join(sorted(found.__abstractmethods__))}")
    return found


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
