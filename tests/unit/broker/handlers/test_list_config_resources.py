"""ListConfigResources over the wire."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, versions_of


def ask(node: SimNode, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    answer = node.ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=list(kinds))
    assert answer.error_code is ErrorCode.none
    return [(getattr(each, "resource_type", 16), each.resource_name) for each in answer.config_resources]


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_CONFIG_RESOURCES))
def test_every_version_lists_client_metrics(node: SimNode, version: int) -> None:
    node.set_configs(16, "subscription", interval_ms="1000")
    assert ask(node, 16, version=version) == [(16, "subscription")]


def test_all_kinds_are_listed(node: SimNode) -> None:
    node.create_topic("t")
    node.set_configs(32, "group", consumer_session_timeout_ms="50000")
    assert ask(node) == [(2, "t"), (4, "1"), (8, "1"), (32, "group")]
    assert ask(node, 2) == [(2, "t")]


def test_an_unknown_kind_is_refused(node: SimNode) -> None:
    answer = node.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[3])
    assert answer.error_code is ErrorCode.unsupported_version
