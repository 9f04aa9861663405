"""AlterConfigs at the controller; through a broker it is tested there."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import row
from tests.support.quorum.sim_controllers import SimControllers, run_controllers


@pytest.mark.parametrize("version", [0, 1, 2])
@run_with(run_controllers)
async def test_all_settings_of_a_resource_are_replaced(cluster: SimControllers, /, version: int) -> None:
    values = {"message.max.bytes": "300", "min.insync.replicas": "1"}
    configs = [row("AlterableConfig", name=name, value=value) for name, value in values.items()]
    wanted = [
        row("AlterConfigsResource", resource_type=4, resource_name="", configs=configs),
        row("AlterConfigsResource", resource_type=8, resource_name="1", configs=[]),
    ]

    node = await cluster.active()
    answer = await node.ask(ApiKey.ALTER_CONFIGS, version, resources=wanted, validate_only=False)
    assert [each.error_code for each in answer.responses] == [ErrorCode.none, ErrorCode.invalid_request]
    assert node.context.image.configs.get(4, "") == values
