"""Config changes: loggers in the process, all others in the metadata."""

from __future__ import annotations

import logging

from crabka.config.alter import ConfigOp
from crabka.controller.config_changes import change_configs
from crabka.metadata.configs import ConfigResource
from crabka.metadata.requests import ResourceChange
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.sim_controllers import SimControllers, run_controllers

LOGGER = "crabka.broker.node"


def test_verdicts_come_in_the_order_of_the_changes() -> None:
    before = logging.getLogger(LOGGER).level
    changes = [
        ResourceChange(ConfigResource(8, "1"), [ConfigOp(LOGGER, 0, "NOISE")]),
        ResourceChange(ConfigResource(4, ""), [ConfigOp("message.max.bytes", 0, "5")]),
        ResourceChange(ConfigResource(8, "1"), [ConfigOp(LOGGER, 0, "ERROR")]),
        ResourceChange(ConfigResource(2, "nope"), [ConfigOp("retention.ms", 0, "5")]),
    ]

    async def main(cluster: SimControllers) -> None:
        context = (await cluster.active()).context
        verdicts = await change_configs(context, changes, validate_only=False)
        assert logging.getLogger(LOGGER).level == logging.ERROR
        assert [verdict.error_code for verdict in verdicts] == [
            ErrorCode.invalid_config,
            ErrorCode.none,
            ErrorCode.none,
            ErrorCode.unknown_topic_or_partition,
        ]
        assert context.image.configs.get(4, "")["message.max.bytes"] == "5"
        assert context.config.message_max_bytes == 5

    try:
        run_controllers(main)
    finally:
        logging.getLogger(LOGGER).setLevel(before)
