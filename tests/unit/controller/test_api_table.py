"""The APIs of the controller listener and the modules behind them."""

from __future__ import annotations

import json
import pkgutil

import pytest

from crabka.broker.api_table import TABLE as BROKER_TABLE
from crabka.controller import handlers
from crabka.controller.api_table import TABLE
from crabka.protocol.apis import ApiKey
from tests.support.recorded.files import GOLDEN


@pytest.mark.parametrize("key", sorted(TABLE.served), ids=lambda key: ApiKey(key).name)
def test_every_served_api_has_a_handler(key: int) -> None:
    assert callable(TABLE.load(key).handle)


def test_every_handler_module_is_served() -> None:
    modules = {module.name for module in pkgutil.iter_modules(handlers.__path__)}
    assert modules == {api.key.name.lower() for key, api in TABLE.served.items() if key not in TABLE.shared}


def test_all_that_brokers_forward_is_served() -> None:
    assert BROKER_TABLE.forwarded <= TABLE.served.keys()


def test_versions_are_those_of_kafkas_controllers() -> None:
    golden = json.loads((GOLDEN / "api_versions.json").read_text())["controller"]["api_keys"]
    for key, api in TABLE.served.items():
        assert (api.advertised_min_version, api.max_version) == (golden[str(key)]["min"], golden[str(key)]["max"])
