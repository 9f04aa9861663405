"""Which tier a command is about."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from crabka.cli.tier.storage import open_published_storage, open_storage
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ClusterDescription, ConfigOwner, ConfigValue
from crabka.clients.cluster.metadata import BrokerEndpoint
from crabka.errors import ConfigError
from crabka.remote.backends.local import ROOT_NAME, LocalTieredStorage
from crabka.remote.backends.url import CLASS_NAME


def test_a_directory_that_is_no_tier_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no tier: it has no directory kafka-tiered-storage"):
        open_storage(f"file://{tmp_path}", None)
    assert list(tmp_path.iterdir()) == []


def test_an_address_names_a_directory(tmp_path: Path) -> None:
    (tmp_path / ROOT_NAME).mkdir()
    storage = open_storage(f"file://{tmp_path}", None)
    assert isinstance(storage, LocalTieredStorage)
    assert open_storage(None, None) is None


def test_of_a_properties_file_only_the_storage_counts(tmp_path: Path) -> None:
    (tmp_path / ROOT_NAME).mkdir()
    path = tmp_path / "server.properties"
    path.write_text(
        f"listeners=SASL_SSL://:9093\n{CLASS_NAME}=local\n"
        f"remote.log.storage.manager.impl.prefix=my.\nmy.dir={tmp_path}\nrsm.config.other=ignored\n"
    )
    assert isinstance(open_storage(None, str(path)), LocalTieredStorage)


def test_a_file_without_a_storage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=1\n")
    with pytest.raises(ConfigError, match=f"has no {CLASS_NAME}"):
        open_storage(None, str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot read"):
        open_storage(None, str(path))


def test_two_places_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="exclude"):
        open_storage("file:///tier", "server.properties")


class PublishingAdmin:
    """A broker with these settings."""

    def __init__(self, **configs: str | None) -> None:
        self._configs = {name.replace("_", "."): value for name, value in configs.items()}
        self.cluster = self

    async def describe(self) -> ClusterDescription:
        return ClusterDescription("cluster", 1, (BrokerEndpoint(7, "broker", 9092, None),))

    async def describe_configs(self, owner: ConfigOwner) -> dict[str, ConfigValue]:
        assert owner.name == "7"
        return {
            name: ConfigValue(
                name,
                value,
                source=4,
                is_read_only=True,
                is_sensitive=value is None,
                type=2,
                documentation=None,
                synonyms=(),
            )
            for name, value in self._configs.items()
        }


def publishing(class_name: str | None, **configs: str | None) -> Admin:
    named = {"remote_log_storage_manager_class_name": class_name}
    return cast("Admin", cast("Any", PublishingAdmin(**named, **configs)))


@pytest.mark.parametrize(
    ("class_name", "configs", "words"),
    [
        ("org.example.Storage", {}, "use the storage org.example.Storage, but do not publish its address"),
        # Apache Kafka hides the settings of its storages.
        ("local", {"rsm_config_dir": None}, "use the storage local, but do not publish its address"),
        (None, {}, "have no remote storage"),
        ("local", {"rsm_config_dir": "/not/here"}, "the tier file:///not/here, which does not open here: /not/here is"),
    ],
)
def test_without_a_tier_the_error_names_the_option(
    class_name: str | None, configs: dict[str, str | None], words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        asyncio.run(open_published_storage(publishing(class_name, **configs)))
    assert words in str(raised.value)
    assert "--tier URL" in str(raised.value)


def test_the_tier_that_a_broker_publishes_is_opened(tmp_path: Path) -> None:
    (tmp_path / ROOT_NAME).mkdir()
    storage = asyncio.run(open_published_storage(publishing("local", rsm_config_dir=str(tmp_path))))
    assert isinstance(storage, LocalTieredStorage)


def test_a_broker_cannot_name_code_for_a_command_to_load() -> None:
    with pytest.raises(ConfigError, match="do not publish its address"):
        asyncio.run(open_published_storage(publishing("tests.evil:Storage", rsm_config_dir="/")))
