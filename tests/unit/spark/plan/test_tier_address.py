from __future__ import annotations

import pytest

from crabka.remote.backends.url import storage_settings_of_url
from crabka.spark.plan.tier_address import tier_uri_of


@pytest.mark.parametrize(
    "uri",
    [
        "file:///cold/tier",
        "s3://bucket/my/prefix?endpoint=http%3A%2F%2Fhost%3A9000&region=x&allow.http=true",
        "s3://bucket",
        "gs://bucket/prefix",
        "az://account/container/prefix",
    ],
)
def test_settings_of_a_broker_are_the_address_again(uri: str) -> None:
    settings: dict[str, str | None] = dict(storage_settings_of_url(uri))
    found = tier_uri_of(settings)
    assert found is not None
    assert storage_settings_of_url(found) == settings


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"remote.log.storage.manager.class.name": "local", "rsm.config.dir": None},
        {"remote.log.storage.manager.class.name": "s3"},
        {"remote.log.storage.manager.class.name": "my.module:Storage", "rsm.config.bucket": "x"},
    ],
)
def test_what_is_hidden_or_foreign_is_no_address(configs: dict[str, str | None]) -> None:
    assert tier_uri_of(configs) is None


def test_kafkas_class_of_a_directory_is_known() -> None:
    name = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    configs: dict[str, str | None] = {"remote.log.storage.manager.class.name": name, "rsm.config.dir": "/cold"}
    assert tier_uri_of(configs) == "file:///cold"
