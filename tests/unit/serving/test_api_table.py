"""Tables of APIs: versions, and the modules behind them."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import SPECS, ApiKey
from crabka.serving.api_table import ApiTable, served_api

TABLE = ApiTable(
    [ApiKey.METADATA, ApiKey.FETCH, ApiKey.CREATE_TOPICS],
    "crabka.broker.handlers",
    packed_by_hand=frozenset({ApiKey.FETCH}),
    forwarded=frozenset({ApiKey.CREATE_TOPICS}),
)


def test_handlers_are_modules_named_as_their_api() -> None:
    metadata, fetch = TABLE.load(ApiKey.METADATA), TABLE.load(ApiKey.FETCH)
    assert metadata.handle.__module__ == "crabka.broker.handlers.metadata"
    assert not metadata.packs_frames
    assert fetch.packs_frames


def test_forwarded_apis_are_served_as_well() -> None:
    assert TABLE.forwarded == {ApiKey.CREATE_TOPICS}
    assert set(TABLE.specs) == set(TABLE.served) == {ApiKey.METADATA, ApiKey.FETCH, ApiKey.CREATE_TOPICS}
    assert TABLE.specs[ApiKey.METADATA] == SPECS[ApiKey.METADATA]


def test_an_api_that_is_not_in_the_table_has_no_handler() -> None:
    with pytest.raises(KeyError):
        TABLE.load(ApiKey.PRODUCE)


def test_produce_is_advertised_from_version_0_and_unstable_versions_are_not_served() -> None:
    produce = served_api(ApiKey.PRODUCE)
    assert (produce.advertised_min_version, produce.min_version, produce.max_version) == (0, 3, 13)
    assert served_api(ApiKey.INIT_PRODUCER_ID).max_version == 5


def test_apis_can_share_a_function() -> None:
    def refuse(_context: object, _request: object) -> str:
        return "refused"

    table = ApiTable([ApiKey.CREATE_ACLS], "crabka.broker.handlers", shared={ApiKey.CREATE_ACLS: refuse})
    handler = table.load(ApiKey.CREATE_ACLS)
    assert (handler.handle, handler.read, handler.is_async) == (refuse, None, False)
