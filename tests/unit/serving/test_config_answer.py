"""What DescribeConfigs says at either listener."""

from __future__ import annotations

from typing import Any

from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.config_answer import answer_describe_configs
from crabka.serving.request import Request
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import build, row
from tests.support.quorum.sim_controllers import SimControllers, run_controllers


@run_with(run_controllers)
async def test_settings_are_reported_with_their_source(cluster: SimControllers, /) -> None:
    resources = [
        row("DescribeConfigsResource", resource_type=4, resource_name="1", configuration_keys=("node.id", "nope")),
        row("DescribeConfigsResource", resource_type=2, resource_name="nope", configuration_keys=None),
    ]
    fields: dict[str, Any] = {"resources": resources, "include_synonyms": True, "include_documentation": True}
    body = build(ApiKey.DESCRIBE_CONFIGS, 4, **fields)
    request = Request(ApiKey.DESCRIBE_CONFIGS, 4, 1, None, body, ConnectionInfo(1, "CONTROLLER", "h", 1))

    broker, topic = answer_describe_configs((await cluster.active()).context, request).results
    assert [each.name for each in broker.configs] == ["node.id"]
    assert broker.configs[0].documentation
    assert [each.value for each in broker.configs[0].synonyms][:1] == ["1"]
    assert (topic.error_code, topic.configs) == (ErrorCode.unknown_topic_or_partition, ())
