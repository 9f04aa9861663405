"""DescribeCluster over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import CLUSTER_ID, NODE_HOST, SimNode, versions_of


def ask(node: SimNode, version: int = 2, **options: Any) -> Any:
    fields = {
        "include_cluster_authorized_operations": False,
        "endpoint_type": 1,
        "include_fenced_brokers": False,
        **options,
    }
    return node.ask(ApiKey.DESCRIBE_CLUSTER, version, **fields)


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CLUSTER))
def test_every_version_describes_the_node(node: SimNode, version: int) -> None:
    answer = ask(node, version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (ErrorCode.none, CLUSTER_ID, 1)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(1, NODE_HOST, 9092)]
    assert answer.cluster_authorized_operations == -(2**31)


def test_allowed_operations_are_reported_on_request(node: SimNode) -> None:
    assert ask(node, include_cluster_authorized_operations=True).cluster_authorized_operations == 0x1FA0


def test_controllers_are_not_described_here(node: SimNode) -> None:
    answer = ask(node, endpoint_type=2)
    assert answer.error_code is ErrorCode.mismatched_endpoint_type
    assert answer.brokers == ()
