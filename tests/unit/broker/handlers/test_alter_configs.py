"""AlterConfigs over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row, versions_of


def alter(
    node: SimNode, configs: dict[str, str], *, kind: int = 2, name: str = "t", version: int = 2, **options: Any
) -> Any:
    rows = [row("AlterableConfig", name=key, value=value) for key, value in configs.items()]
    resource = row("AlterConfigsResource", resource_type=kind, resource_name=name, configs=rows)
    fields = {"validate_only": False, **options}
    return node.ask(ApiKey.ALTER_CONFIGS, version, resources=[resource], **fields).responses[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_CONFIGS))
def test_every_version_replaces_all_settings(node: SimNode, version: int) -> None:
    node.create_topic("t", retention_ms="5")
    assert alter(node, {"segment.ms": "7"}, version=version).error_code is ErrorCode.none
    assert node.context.image.configs.get(2, "t") == {"segment.ms": "7"}
    assert node.context.partitions.by_name("t", 0).log.config.segment_ms == 7


def test_validation_alone_changes_nothing(node: SimNode) -> None:
    node.create_topic("t", retention_ms="5")
    assert alter(node, {}, validate_only=True).error_code is ErrorCode.none
    assert node.context.image.configs.get(2, "t") == {"retention.ms": "5"}


def test_faults_have_their_own_codes(node: SimNode) -> None:
    node.create_topic("t")
    assert alter(node, {"retention.ms": "x"}).error_code is ErrorCode.invalid_config
    assert alter(node, {"nope": "1"}).error_code is ErrorCode.invalid_config
    assert alter(node, {}, name="nope").error_code is ErrorCode.unknown_topic_or_partition
    assert alter(node, {}, kind=8, name="1").error_code is ErrorCode.invalid_request
