"""The controller role of a node."""

from __future__ import annotations

from typing import Any

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import build, row
from tests.support.quorum.sim_controllers import SimControllers, run_controllers


def alter_cluster_default(key: str, value: str) -> Any:
    configs = [row("AlterableConfig", name=key, config_operation=0, value=value)]
    resource = row("AlterConfigsResource", resource_type=4, resource_name="", configs=configs)
    return build(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)


@run_with(run_controllers)
async def test_the_nodes_own_broker_asks_without_a_socket(cluster: SimControllers, /) -> None:
    service = (await cluster.active()).service
    body = alter_cluster_default("message.max.bytes", "300")
    (answer,) = (await service.answer(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)).responses
    assert answer.error_code is ErrorCode.none
    reassignments = build(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=1000)
    listed = await service.answer(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, reassignments)
    assert (listed.error_code, listed.topics) == (ErrorCode.none, ())


@run_with(run_controllers, 3)
async def test_a_controller_that_is_not_active_says_so(cluster: SimControllers, /) -> None:
    service = (await cluster.passive()).service
    assert not service.is_active
    body = alter_cluster_default("message.max.bytes", "300")
    (answer,) = (await service.answer(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)).responses
    assert answer.error_code is ErrorCode.not_controller


@run_with(run_controllers, 3)
async def test_dynamic_settings_reach_every_controller(cluster: SimControllers, /) -> None:
    service = (await cluster.active()).service
    await service.answer(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alter_cluster_default("message.max.bytes", "300"))
    await cluster.wait(lambda: all(node.context.config.message_max_bytes == 300 for node in cluster.nodes))
