"""Loading the storage of the remote tier by its name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from crabka.config.java_classes import LOCAL_TIERED_STORAGE, check_java_class
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.ports import FileSystem
from crabka.remote.plugins import BUILT_IN_STORAGES, load_storage_manager
from crabka.remote.storage_manager import RemoteStorageManager
from crabka.testing import MemoryFileSystem
from crabka.testing.memory_storage import InmemoryRemoteStorage
from tests.unit.config.nodes import MINIMAL

NAME_KEY = "remote.log.storage.manager.class.name"


class TellingStorage(InmemoryRemoteStorage):
    """Keeps what it was made with and what it received; refuses some settings, as its author would."""

    def __init__(self, fs: FileSystem | None = None) -> None:
        super().__init__(fs)
        self.given_fs = fs
        self.settings: Mapping[str, str] = {}

    def configure(self, settings: Mapping[str, str]) -> None:
        if settings.get("bucket") == "":
            raise ConfigError("bucket must have a name")
        if "size" in settings:
            int(settings["size"])
        self.settings = settings


class StubbornStorage(InmemoryRemoteStorage):
    def __init__(self) -> None:
        raise RuntimeError("no licence")


class HalfStorage(RemoteStorageManager):
    def close(self) -> None: ...


def config_of(name: str | None, **more: str) -> ServerConfig:
    properties = MINIMAL if name is None else {**MINIMAL, NAME_KEY: name}
    return ServerConfig.from_properties({**properties, **{key.replace("_", "."): text for key, text in more.items()}})[
        0
    ]


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> str:
    module = ModuleType("third_party")
    vars(module).update(Telling=TellingStorage, Stubborn=StubbornStorage, Half=HalfStorage, Words=str, value=3)
    monkeypatch.setitem(sys.modules, "third_party", module)
    return "third_party"


@pytest.mark.parametrize("name", BUILT_IN_STORAGES)
def test_a_storage_of_crabka_is_loaded_by_its_name_and_gets_the_nodes_file_system(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module_name, _, class_name = BUILT_IN_STORAGES[name].partition(":")
    module = ModuleType(module_name)
    setattr(module, class_name, TellingStorage)
    monkeypatch.setitem(sys.modules, module_name, module)
    fs = MemoryFileSystem()
    storage = load_storage_manager(config_of(name, rsm_config_dir="tier"), fs)
    assert isinstance(storage, TellingStorage)
    assert storage.given_fs is fs
    assert storage.settings == {"dir": "tier"}


@pytest.mark.parametrize("place", sorted(set(BUILT_IN_STORAGES.values())))
def test_the_storages_of_crabka_are_where_the_table_says(place: str) -> None:
    module_name, _, class_name = place.partition(":")
    storage = getattr(importlib.import_module(module_name), class_name)(MemoryFileSystem())
    assert isinstance(storage, RemoteStorageManager)
    storage.close()


def test_the_settings_accept_exactly_the_names_that_can_be_loaded() -> None:
    assert LOCAL_TIERED_STORAGE in BUILT_IN_STORAGES
    for name in BUILT_IN_STORAGES:
        check_java_class(NAME_KEY, name)
    with pytest.raises(ConfigError) as refused:
        check_java_class(NAME_KEY, "com.example.Mine")
    assert str(refused.value).endswith(f"(known here: {', '.join(sorted(BUILT_IN_STORAGES))}, package.module:Class)")


def test_a_foreign_class_is_made_without_arguments_and_configured_with_the_settings_below_the_prefix(
    plugin: str,
) -> None:
    config = config_of(
        f"{plugin}:Telling",
        remote_log_storage_manager_impl_prefix="mine.",
        mine_bucket="b",
        mine_deep_key="1",
        rsm_config_dir="not for it",
    )
    storage = load_storage_manager(config, MemoryFileSystem())
    assert isinstance(storage, TellingStorage)
    assert storage.given_fs is None
    assert storage.settings == {"bucket": "b", "deep.key": "1"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Storage", r"no_such_module:Storage needs the module no_such_module: No module named"),
        ("third_party:Missing", r"the module third_party has no class 'Missing'"),
        ("third_party:value", r"the module third_party has no class 'value'"),
        ("third_party:", r"the module third_party has no class ''"),
        ("third_party:Words", r"third_party:Words is no RemoteStorageManager"),
        ("third_party:Half", r"third_party:Half lacks copy_log_segment_data, delete_log_segment_data, fetch_index"),
        ("third_party:Stubborn", r"third_party:Stubborn cannot be made: RuntimeError: no licence"),
        (":Storage", r":Storage cannot be made"),
    ],
)
@pytest.mark.usefixtures("plugin")
def test_a_class_that_cannot_be_used_is_a_clear_error(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        load_storage_manager(config_of(name), MemoryFileSystem())
    assert str(refused.value).startswith(f"{NAME_KEY}: ")


def test_without_a_name_there_is_nothing_to_load() -> None:
    with pytest.raises(ConfigError, match=f"{NAME_KEY} must name the storage"):
        load_storage_manager(config_of(None), MemoryFileSystem())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"rsm_config_bucket": ""}, r"^third_party:Telling, settings rsm\.config\.\*: bucket must have a name$"),
        ({"rsm_config_size": "big"}, r"third_party:Telling cannot be configured by rsm\.config\.\*: ValueError: "),
    ],
)
def test_wrong_settings_are_a_clear_error(plugin: str, setting: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_storage_manager(config_of(f"{plugin}:Telling", **setting), MemoryFileSystem())
