"""DescribeCluster at the controller: controllers, and which of them is active."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import SimControllers, run_controllers


def describe(version: int = 2, endpoint_type: int = 2) -> dict[str, Any]:
    fields = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    return fields if version == 0 else {**fields, "endpoint_type": endpoint_type}


@run_with(run_controllers, 3)
async def test_every_controller_knows_all_and_the_active_one(cluster: SimControllers, /) -> None:
    await cluster.wait(lambda: all(len(node.context.image.cluster.controllers) == 3 for node in cluster.nodes))
    active = await cluster.active()
    for node in cluster.nodes:
        answer = await node.ask(ApiKey.DESCRIBE_CLUSTER, 2, **describe())
        assert (answer.error_code, answer.endpoint_type) == (ErrorCode.none, 2)
        assert (answer.cluster_id, answer.controller_id) == ("cluster", active.node_id)
        hosts = [(each.broker_id, each.host, each.port) for each in answer.brokers]
        assert hosts == [(1, "c1", 9093), (2, "c2", 9093), (3, "c3", 9093)]


@pytest.mark.parametrize(
    ("version", "wanted", "code"),
    [
        (0, 1, ErrorCode.invalid_request),
        (1, 1, ErrorCode.mismatched_endpoint_type),
        (2, 9, ErrorCode.unsupported_endpoint_type),
    ],
)
@run_with(run_controllers)
async def test_brokers_are_described_by_brokers(
    cluster: SimControllers, /, version: int, wanted: int, code: ErrorCode
) -> None:
    node = await cluster.active()
    answer = await node.ask(ApiKey.DESCRIBE_CLUSTER, version, **describe(version, wanted))
    assert (answer.error_code, answer.brokers) == (code, ())
    assert answer.error_message
