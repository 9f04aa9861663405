"""Config changes: loggers in the process, all others in the metadata."""

from __future__ import annotations

import logging

from crabka.broker.config_changes import change_configs
from crabka.config.alter import ConfigOp
from crabka.controller.configs import ResourceChange
from crabka.metadata.configs import ConfigResource
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode

LOGGER = "crabka.node.node"


def test_verdicts_come_in_the_order_of_the_changes(node: SimNode) -> None:
    node.create_topic("t")
    before = logging.getLogger(LOGGER).level
    changes = [
        ResourceChange(ConfigResource(8, "1"), [ConfigOp(LOGGER, 0, "NOISE")]),
        ResourceChange(ConfigResource(2, "t"), [ConfigOp("retention.ms", 0, "5")]),
        ResourceChange(ConfigResource(8, "1"), [ConfigOp(LOGGER, 0, "ERROR")]),
        ResourceChange(ConfigResource(2, "nope"), [ConfigOp("retention.ms", 0, "5")]),
    ]
    try:
        verdicts = node.run(change_configs(node.context, changes, validate_only=False))
        assert logging.getLogger(LOGGER).level == logging.ERROR
    finally:
        logging.getLogger(LOGGER).setLevel(before)
    assert [verdict.error_code for verdict in verdicts] == [
        ErrorCode.invalid_config,
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert node.context.image.configs.get(2, "t") == {"retention.ms": "5"}


def test_validation_alone_leaves_loggers_alone(node: SimNode) -> None:
    before = logging.getLogger(LOGGER).level
    change = ResourceChange(ConfigResource(8, "1"), [ConfigOp(LOGGER, 0, "ERROR")])
    (verdict,) = node.run(change_configs(node.context, [change], validate_only=True))
    assert verdict.error_code is ErrorCode.none
    assert logging.getLogger(LOGGER).level == before
