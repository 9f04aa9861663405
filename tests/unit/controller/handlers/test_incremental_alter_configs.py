"""IncrementalAlterConfigs at the controller; through a broker it is tested there."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import Row, row
from tests.support.quorum.sim_controllers import SimControllers, run_controllers

LOGGER = "crabka.controller.service"


def resource(kind: int, name: str, key: str, value: str) -> Row:
    configs = [row("AlterableConfig", name=key, config_operation=0, value=value)]
    return row("AlterConfigsResource", resource_type=kind, resource_name=name, configs=configs)


@pytest.mark.parametrize("version", [0, 1])
@run_with(run_controllers)
async def test_settings_are_in_force_when_the_answer_comes(cluster: SimControllers, /, version: int) -> None:
    node = await cluster.active()
    wanted = [resource(4, "", "message.max.bytes", "300"), resource(2, "nope", "segment.ms", "1")]
    answer = await node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=wanted, validate_only=False)
    assert [each.error_code for each in answer.responses] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert node.context.config.message_max_bytes == 300


def test_the_controllers_own_loggers_change_as_well() -> None:
    before = logging.getLogger(LOGGER).level

    async def main(cluster: SimControllers) -> Any:
        node = await cluster.active()
        wanted = [resource(8, "1", LOGGER, "ERROR")]
        return await node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=wanted, validate_only=False)

    try:
        (answer,) = run_controllers(main).responses
        assert (answer.error_code, logging.getLogger(LOGGER).level) == (ErrorCode.none, logging.ERROR)
    finally:
        logging.getLogger(LOGGER).setLevel(before)


@run_with(run_controllers, 3)
async def test_only_the_active_controller_changes_anything(cluster: SimControllers, /) -> None:
    node = await cluster.passive()
    wanted = [resource(4, "", "message.max.bytes", "300")]
    answer = await node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=wanted, validate_only=False)
    assert [each.error_code for each in answer.responses] == [ErrorCode.not_controller]
