"""IncrementalAlterConfigs over the wire: the changes are in force when the answer comes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def alter(node: SimNode, *ops: tuple[str, int, str | None], kind: int = 2, name: str = "t", **options: Any) -> Any:
    version = options.pop("version", 1)
    rows = [row("AlterableConfig", name=key, config_operation=op, value=value) for key, op, value in ops]
    resource = row("AlterConfigsResource", resource_type=kind, resource_name=name, configs=rows)
    fields = {"validate_only": False, **options}
    return node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], **fields).responses[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_every_version_sets_and_deletes(node: SimNode, version: int) -> None:
    node.create_topic("t", retention_ms="5")
    answer = alter(node, ("segment.ms", SET, "7"), ("retention.ms", DELETE, None), version=version)
    assert (answer.error_code, answer.resource_type, answer.resource_name) == (ErrorCode.none, 2, "t")
    assert node.context.image.configs.get(2, "t") == {"segment.ms": "7"}


def test_lists_grow_and_shrink(node: SimNode) -> None:
    node.create_topic("t")
    alter(node, ("cleanup.policy", APPEND, "compact"))
    log = node.context.partitions.by_name("t", 0).log
    assert log.config.cleanup_policy == {"compact", "delete"}
    alter(node, ("cleanup.policy", SUBTRACT, "delete"))
    assert log.config.cleanup_policy == {"compact"}


def test_a_topic_setting_takes_effect_at_once(node: SimNode) -> None:
    node.create_topic("t")
    assert node.produce("t", batch(bytes(200))).error_code == ErrorCode.none
    alter(node, ("max.message.bytes", SET, "100"))
    assert node.produce("t", batch(bytes(200))).error_code == ErrorCode.message_too_large


@pytest.mark.parametrize("name", ["", "1"])
def test_a_broker_setting_takes_effect_at_once(node: SimNode, name: str) -> None:
    node.create_topic("t")
    assert alter(node, ("message.max.bytes", SET, "100"), kind=4, name=name).error_code is ErrorCode.none
    assert node.produce("t", batch(bytes(200))).error_code == ErrorCode.message_too_large
    assert node.context.config.message_max_bytes == 100
    alter(node, ("message.max.bytes", DELETE, None), kind=4, name=name)
    assert node.produce("t", batch(bytes(200))).error_code == ErrorCode.none


def test_dynamic_settings_survive_a_restart(node: SimNode) -> None:
    node.create_topic("t")
    alter(node, ("message.max.bytes", SET, "100"), kind=4, name="")
    node.restart()
    assert node.produce("t", batch(bytes(200))).error_code == ErrorCode.message_too_large


def test_a_logger_changes_its_level(node: SimNode) -> None:
    name = "crabka.node.node"
    logger = logging.getLogger(name)
    before = logger.level
    try:
        assert alter(node, (name, SET, "DEBUG"), kind=8, name="1").error_code is ErrorCode.none
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


def test_validation_alone_changes_nothing(node: SimNode) -> None:
    node.create_topic("t")
    assert alter(node, ("segment.ms", SET, "7"), validate_only=True).error_code is ErrorCode.none
    assert node.context.image.configs.get(2, "t") == {}


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code"),
    [
        (2, "t", "retention.ms", "x", ErrorCode.invalid_config),
        (2, "nope", "retention.ms", "1", ErrorCode.unknown_topic_or_partition),
        (4, "9", "message.max.bytes", "1", ErrorCode.broker_id_not_registered),
        (4, "1", "log.dirs", "/x", ErrorCode.invalid_request),
        (8, "1", "crabka.nope", "INFO", ErrorCode.invalid_config),
        (99, "1", "x", "1", ErrorCode.invalid_request),
    ],
)
def test_faults_have_their_own_codes(
    node: SimNode, kind: int, name: str, key: str, value: str, code: ErrorCode
) -> None:
    node.create_topic("t")
    refused = alter(node, (key, SET, value), kind=kind, name=name)
    assert refused.error_code is code, refused
    assert refused.error_message
