"""AlterClientQuotas and DescribeClientQuotas together: quotas are kept and shown."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, versions_of
from tests.support.quorum.quotas import alter


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_CLIENT_QUOTAS))
def test_every_version_stores_and_removes(node: SimNode, version: int) -> None:
    stored = alter(node, {"user": "a"}, {"producer_byte_rate": 5.0}, version=version)
    assert stored.error_code is ErrorCode.none
    assert [(each.entity_type, each.entity_name) for each in stored.entity] == [("user", "a")]
    assert list(node.context.image.client_quotas.entities.values()) == [{"producer_byte_rate": 5.0}]
    alter(node, {"user": "a"}, {"producer_byte_rate": None}, version=version)
    assert not any(node.context.image.client_quotas.entities.values())


def test_validation_alone_changes_nothing(node: SimNode) -> None:
    assert alter(node, {"user": None}, {"producer_byte_rate": 5.0}, validate_only=True).error_code is ErrorCode.none
    assert not node.context.image.client_quotas.entities


def test_an_illegal_entity_is_refused(node: SimNode) -> None:
    refused = alter(node, {"planet": "a"}, {"producer_byte_rate": 5.0})
    assert refused.error_code is ErrorCode.invalid_request
    assert refused.error_message
