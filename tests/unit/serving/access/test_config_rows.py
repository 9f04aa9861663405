"""Permissions of configs."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import row
from tests.support.security.guarded_node import guarded_node

TOPIC, GROUP, CLUSTER = (
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
)


def test_each_resource_has_its_own_permission_and_error() -> None:
    with guarded_node() as guarded:
        described = guarded.call("alice", "describe configs", ApiKey.DESCRIBE_CONFIGS, 4).results
        assert [(each.resource_type, each.resource_name, each.error_code) for each in described] == [
            (2, "open", ErrorCode.none),
            (32, "open", ErrorCode.none),
            (2, "closed", TOPIC),
            (32, "closed", GROUP),
            (4, "", CLUSTER),
        ]
        for call, api_key in (
            ("alter configs", ApiKey.ALTER_CONFIGS),
            ("change configs", ApiKey.INCREMENTAL_ALTER_CONFIGS),
        ):
            altered = guarded.call("alice", call, api_key, 1).responses
            codes = {(each.resource_type, each.resource_name): each.error_code for each in altered}
            assert codes[2, "open"] is ErrorCode.none
            assert (codes[2, "closed"], codes[32, "closed"], codes[4, ""]) == (TOPIC, GROUP, CLUSTER)


def test_a_refused_change_is_not_made() -> None:
    with guarded_node() as guarded:
        config = row("AlterableConfig", name="retention.ms", config_operation=0, value="1")
        resource = row("AlterConfigsResource", resource_type=2, resource_name="closed", configs=[config])
        guarded.ask("alice", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        assert guarded.sim.context.image.configs.get(2, "closed") == {}
        logger = row(
            "AlterConfigsResource",
            resource_type=8,
            resource_name="1",
            configs=[row("AlterableConfig", name="root", config_operation=0, value="DEBUG")],
        )
        answer = guarded.ask("alice", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[logger], validate_only=False)
        assert [each.error_code for each in answer.responses] == [CLUSTER]
