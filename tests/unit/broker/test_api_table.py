"""The table of served APIs and the modules behind it."""

from __future__ import annotations

import json
import pkgutil

import pytest

from crabka.broker import handlers
from crabka.broker.api_table import SERVED, SERVED_SPECS, TABLE
from crabka.protocol.apis import ApiKey
from tests.support.recorded.files import GOLDEN


@pytest.mark.parametrize("key", sorted(SERVED.keys() - TABLE.forwarded), ids=lambda key: ApiKey(key).name)
def test_every_api_that_is_not_forwarded_has_a_handler(key: int) -> None:
    handler = TABLE.load(key)
    assert callable(handler.handle)
    assert handler.packs_frames == (key in (ApiKey.PRODUCE, ApiKey.FETCH))


def test_every_handler_module_is_served() -> None:
    modules = {module.name for module in pkgutil.iter_modules(handlers.__path__)}
    elsewhere = {*TABLE.forwarded, *TABLE.shared}
    assert modules == {api.key.name.lower() for key, api in SERVED.items() if key not in elsewhere}


def test_produce_is_advertised_from_0_and_served_from_3() -> None:
    produce = SERVED[ApiKey.PRODUCE]
    assert (produce.advertised_min_version, produce.min_version, produce.max_version) == (0, 3, 13)
    assert SERVED_SPECS[ApiKey.PRODUCE].min_version == 3


def test_unstable_versions_are_not_served() -> None:
    assert SERVED_SPECS[ApiKey.INIT_PRODUCER_ID].max_version == 5


def test_nothing_is_advertised_that_kafka_does_not_advertise() -> None:
    golden = json.loads((GOLDEN / "api_versions.json").read_text())["broker"]["api_keys"]
    for key, api in SERVED.items():
        assert (api.advertised_min_version, api.max_version) == (golden[str(key)]["min"], golden[str(key)]["max"])
