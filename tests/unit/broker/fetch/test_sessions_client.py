"""Who fetches, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.broker.fetch.sessions import FetchClient, fetch_client, replica_of, selects_by_rack
from crabka.config.java_classes import RACK_AWARE_SELECTOR
from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.protocol.apis import ApiKey, request_types
from tests.support.nodes.sim_node import fetch_body, versions_of


def config(**settings: str) -> ServerConfig:
    properties = {**one_node_properties("/d1", "node", 9092), **{k.replace("_", "."): v for k, v in settings.items()}}
    return ServerConfig.from_properties(properties)[0]


PLAIN, BY_RACK = config(), config(replica_selector_class=RACK_AWARE_SELECTOR)


def follower_body(version: int, **options: Any) -> Any:
    if version >= 15:
        state = request_types(int(ApiKey.FETCH), version).new("ReplicaState", replica_id=2, replica_epoch=9)
        return fetch_body([], version=version, replica_state=state, **options)
    return fetch_body([], version=version, replica_id=2, **options)


@pytest.mark.parametrize("version", versions_of(ApiKey.FETCH))
def test_a_follower_names_itself(version: int) -> None:
    client = fetch_client(follower_body(version, isolation_level=1), version, PLAIN)
    assert not client.is_committed_only
    assert replica_of(follower_body(version), version) == (2, 9 if version >= 15 else -1)
    assert (client.replica_id, client.broker_epoch) == (2, 9 if version >= 15 else -1)


@pytest.mark.parametrize("version", versions_of(ApiKey.FETCH))
def test_a_consumer_says_where_it_is(version: int) -> None:
    body = fetch_body([], version=version, rack_id="r", isolation_level=1)
    assert fetch_client(body, version, PLAIN) == FetchClient(-1, -1, True, "", version >= 11)
    assert fetch_client(body, version, BY_RACK).rack == ("r" if version >= 11 else "")


def test_racks_count_if_the_node_is_notified() -> None:
    assert selects_by_rack(BY_RACK)
    assert not selects_by_rack(PLAIN)
